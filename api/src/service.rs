//! A running service from its lock to its last answer.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::State, routing::get};
use tokio::{
    net::{TcpListener, TcpSocket},
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    account::{Account, Explicit, OpenError},
    accounts::Standing,
    app::{App, BuildError},
    config::Config,
    data_dir::{DataDir, LockError, Running},
    doors::{admin, http, listen, tls::Certificate},
    files,
    local_witnesses::{self, Children, LocalError, LocalWitness},
};
use countersign_log::{StartError, Stop, StoreError};
use countersign_verifier::policy::Policy;

/// Why a service did not come up, or how it ended.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Another process has the directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The parts do not come together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The directory's witnesses cannot be run.
    #[error(transparent)]
    Witnesses(#[from] LocalError),
    /// The configuration cannot be followed.
    #[error("{0}")]
    Config(String),
    /// An address cannot be listened on.
    #[error("{what}: {source}{}", taken(source))]
    Listen {
        /// Which.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What helps where somebody else listens.
fn taken(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; --listen names another address, and port 0 picks one",
        _ => "",
    }
}

impl ServiceError {
    /// As the process exits: 2 configuration, 4 directory in use, 5 key missing or what is stored must not be signed on, 1 anything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            ServiceError::Lock(LockError::InUse { .. }) => 4,
            ServiceError::Lock(LockError::Io { .. } | LockError::Backup { .. })
            | ServiceError::Config(_)
            | ServiceError::Listen { .. }
            | ServiceError::Witnesses(LocalError::Taken { .. } | LocalError::Wrong { .. })
            | ServiceError::Build(BuildError::Empty(_) | BuildError::Twice(..)) => 2,
            ServiceError::Build(BuildError::Account { source, .. }) => match source {
                OpenError::Store(StoreError::InUse(_)) => 4,
                // No key, another history than the published one, or a store that is not whole: nothing may be signed.
                OpenError::Key { .. }
                | OpenError::Store(StoreError::Damaged { .. })
                | OpenError::Start(
                    StartError::Guard(_)
                    | StartError::Leaf { .. }
                    | StartError::Store(StoreError::Damaged { .. }),
                ) => 5,
                _ => 1,
            },
            ServiceError::Build(BuildError::File { .. }) | ServiceError::Witnesses(_) => 1,
        }
    }
}

/// Serves a data directory until SIGTERM or SIGINT. `ready` is called once requests are accepted.
///
/// # Errors
/// See [`ServiceError`].
pub async fn run(
    config: Config,
    dir: DataDir,
    (explicit, witnesses): (Explicit, Vec<LocalWitness>),
    ready: impl FnOnce(&App),
) -> Result<(), ServiceError> {
    if !dir.root().is_dir() {
        return Err(BuildError::Empty(dir.root().display().to_string()).into());
    }
    let _held = dir.lock()?;
    files::raise_limit(config.limits.connections);
    // Bound before the witnesses start, which are told where the logs are; nobody is accepted before the logs are open.
    let listener = bind(config.listen)?;
    let address = listener.local_addr().map_err(unbound(config.listen))?;
    let logs = match witnesses.is_empty() {
        true => Vec::new(),
        false => local_witnesses::served(&dir, &config.near_url(address))?,
    };
    // Before the log's first head, and until its last one is cosigned.
    let children = Children::start(witnesses, &logs).await?;
    let served = serve(config, &dir, (listener, address), explicit, ready).await;
    children.end().await;
    served
}

async fn serve(
    config: Config,
    dir: &DataDir,
    (listener, address): (TcpListener, SocketAddr),
    explicit: Explicit,
    ready: impl FnOnce(&App),
) -> Result<(), ServiceError> {
    let certificate = config
        .tls
        .as_ref()
        .map(Certificate::load)
        .transpose()
        .map_err(ServiceError::Config)?
        .map(Arc::new);
    let (stopping, mut stop) = watch::channel(false);
    let signals =
        signals(stopping, certificate.clone()).map_err(|source| ServiceError::Listen {
            what: "signals".into(),
            source,
        })?;
    let metrics = match config.metrics.listen {
        Some(address) => Some(bind(address).map_err(|error| match error {
            ServiceError::Listen { what, source } => {
                ServiceError::Config(format!("metrics.listen: {what}: {source}"))
            }
            other => other,
        })?),
        None => None,
    };
    // A path that is too long for a socket keeps nobody from being served; the operator then asks over HTTP.
    let socket = admin::bind(&dir.admin_socket())
        .inspect_err(
            |error| tracing::warn!(%error, path = %dir.admin_socket().display(), "no admin socket"),
        )
        .ok();
    // Opening replays leaves and may take a moment; nothing is accepted before.
    let app = tokio::task::block_in_place(|| App::build(config, dir.clone(), explicit))?;
    let app = Arc::new(app);
    app.listens_at(app.config.url(address));
    app.stops_with(stop.clone());
    let announced = dir.announce(&Running {
        pid: std::process::id(),
        // What is done on this machine needs no proxy, no name and no other machine's word.
        url: app.config.near_url(address),
        started_at: app.server_time(),
    });
    if let Err(error) = announced {
        tracing::warn!(%error, "serve.json could not be written: clients must be told --url");
    }
    let limits = app.config.limits.clone();
    let router = http::router(app.clone());
    let serving = listen::serve(listener, certificate, router, limits.clone(), stop.clone());
    let mut doors = vec![tokio::spawn(serving)];
    if let Some(socket) = socket {
        let router = admin::router(app.clone());
        let serving = listen::serve(socket, None, router, limits.clone(), stop.clone());
        doors.push(tokio::spawn(serving));
    }
    if let Some(metrics) = metrics {
        let router = Router::new().route(
            "/metrics",
            get(|State(app)| async move { http::exposition(&app) }),
        );
        tokio::spawn(listen::serve(
            metrics,
            None,
            router.with_state(app.clone()),
            limits,
            stop.clone(),
        ));
    }
    let (waiting, mut told) = (app.clone(), stop.clone());
    tokio::spawn(async move {
        // An error means that nobody can say "stop" any more, which is as good as having said it.
        let _ = told.wait_for(|stop| *stop).await;
        waiting.disperse();
    });
    let sweeping = tokio::spawn(sweep(app.clone(), stop.clone()));
    until_writing(&app, &mut stop).await;
    ready(&app);
    for door in doors {
        if let Err(error) = door.await {
            tracing::error!(%error, "a door ended in a panic");
        }
    }
    signals.abort();
    if let Err(error) = sweeping.await {
        tracing::error!(%error, "who opens and closes accounts ended in a panic");
    }
    tracing::info!("no more requests; finishing what was accepted");
    tokio::task::block_in_place(|| app.close());
    dir.withdraw();
    Ok(())
}

/// Closes accounts that nobody asks for and opens those where something falls due, until the service stops.
async fn sweep(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        tokio::task::block_in_place(|| {
            app.accounts.sweep();
            app.accounts.erase_owed();
        });
    }
}

/// Waits until the logs take writes and the first head of each is there, for some seconds at most: after a start witnesses are
/// asked first, and whoever reads the ready line expects to be able to write.
async fn until_writing(app: &App, stop: &mut watch::Receiver<bool>) {
    let is_open = |account: Arc<Account>| {
        let status = account.log.status();
        match status.stop {
            None => !account.witnessed || status.published.size > 0,
            Some(Stop::Unguarded(_)) => false,
            // Waiting does not help.
            Some(_) => true,
        }
    };
    let all = async {
        while !app.accounts.values().all(is_open) {
            tokio::time::sleep(WRITING_LOOK).await;
        }
    };
    tokio::select! {
        () = all => {}
        () = tokio::time::sleep(WRITING_TIME) => {
            tracing::warn!("not every log takes writes yet: too few witnesses have answered");
        }
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// So many connections may wait to be accepted; the kernel has its own bound. One that finds no room comes again after a second.
const BACKLOG: u32 = 4_096;

fn bind(address: SocketAddr) -> Result<TcpListener, ServiceError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // As every server does: what ended a moment ago does not keep the port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(unbound(address))
}

fn unbound(address: SocketAddr) -> impl FnOnce(io::Error) -> ServiceError {
    let what = address.to_string();
    move |source| ServiceError::Listen { what, source }
}

/// SIGTERM and SIGINT stop; a second one stops at once. SIGHUP reads the certificate again.
fn signals(
    stopping: watch::Sender<bool>,
    certificate: Option<Arc<Certificate>>,
) -> io::Result<tokio::task::JoinHandle<()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
                _ = hup.recv() => {
                    match certificate.as_ref().map(|c| c.reload()) {
                        Some(Ok(())) => tracing::info!("the certificate was read again"),
                        Some(Err(why)) => tracing::error!(why, "the certificate stays the one in force"),
                        None => tracing::info!("SIGHUP: there is no certificate to read again"),
                    }
                    continue;
                }
            }
            if stopping.send_replace(true) {
                tracing::warn!(
                    "stopped at once; accepted writes that were not committed are lost, and were not answered"
                );
                std::process::exit(1);
            }
            tracing::info!("stopping");
        }
    }))
}

/// The line on standard output that says where the service is.
///
/// # Errors
/// What the system says: whoever reads that line is gone.
pub fn print_ready(app: &App) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for place in app.accounts.all() {
        let files = app.dir.account(&place.name);
        let (vkey, witnesses) = match place.standing() {
            Standing::Open(account) => {
                let asked = account.log.status().witnesses.witnesses.len();
                (account.vkey.clone(), asked)
            }
            // It serves nothing of it, and has said why.
            Standing::Failing => continue,
            // Whoever looks through it later learns how it stands; its files say what it is.
            _ => {
                let text = |path: std::path::PathBuf| files::read_small(&path).unwrap_or_default();
                let policy = Policy::parse(text(files.policy()));
                let asked = policy.map_or(0, |policy| policy.witnesses().len());
                (text(files.log_vkey()).trim().to_owned(), asked)
            }
        };
        let witnesses = match witnesses {
            0 => String::new(),
            n => format!(" witnesses={n}"),
        };
        writeln!(
            out,
            "ready {url} account={name} log={url}/log/{name} vkey={vkey} policy={policy} dir={dir}{witnesses}",
            url = app.url(),
            name = place.name,
            policy = files.policy().display(),
            dir = app.dir.root().display(),
        )?;
    }
    out.flush()
}

/// How long a start waits for its logs to take writes.
const WRITING_TIME: Duration = Duration::from_secs(10);
/// How often accounts are looked through.
const SWEEP: Duration = Duration::from_millis(500);
/// How often it looks.
const WRITING_LOOK: Duration = Duration::from_millis(10);

/// How long a runtime waits for its threads at the end.
pub const RUNTIME_END: Duration = Duration::from_secs(5);
