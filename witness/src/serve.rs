//! A running witness from its lock to its last answer.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::serve::{Listener, ListenerExt};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use crate::blocking::panicked;
use crate::dir::Dir;
use crate::gossip::client::Client;
use crate::gossip::config::{Config, ConfigError, Given};
use crate::gossip::{pull, webhook};
use crate::http::crowd::{Crowd, EACH_MAX, Guest};
use crate::http::{self, admin, listen};
use crate::roster::{Addition, Outcome};
use crate::witness::{OpenError, Witness};

/// How often what was counted is written.
const TALLY_TIME: Duration = Duration::from_secs(10);

/// How long after a panic something is begun anew.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a witness did not come up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its keys or its store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The settings of gossip.
    #[error(transparent)]
    Gossip(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The thread that writes has ended in a panic.
    #[error("the writer ended; nothing is cosigned")]
    Writer,
    /// A door has ended in a panic.
    #[error("a door ended; nobody can come in")]
    Door,
    /// Signals, or the end of whoever started it, cannot be heard.
    #[error("signals: {0}")]
    Signals(io::Error),
}

/// How a witness is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Where it listens.
    pub address: SocketAddr,
    /// It stops when standard input ends, too.
    pub with_parent: bool,
    /// Logs that are added, or followed to another address, before anything is served.
    pub logs: Vec<Addition>,
    /// Proxies in front of it: their connections are not counted by address.
    pub proxies: Vec<IpAddr>,
    /// What is given of gossip; it is kept in the directory.
    pub given: Given,
}

/// Serves the witness at `dir` until SIGTERM or SIGINT. `ready` is called once requests are accepted.
///
/// # Errors
/// [`ServeError`].
pub async fn run(
    dir: &Dir,
    start: Start,
    ready: impl FnOnce(&Witness, SocketAddr),
) -> Result<(), ServeError> {
    let (stopping, stop) = watch::channel(false);
    signals(stopping.clone()).map_err(ServeError::Signals)?;
    if start.with_parent {
        let watching = std::thread::Builder::new().name("parent".into());
        let watching = watching.spawn(move || {
            until_end(&mut io::stdin().lock());
            tracing::info!("whoever started this has ended; stopping");
            stopping.send_replace(true);
        });
        watching.map_err(ServeError::Signals)?;
    }
    let witness = tokio::task::block_in_place(|| Witness::open(dir))?;
    // Once the directory is ours: another one that serves it keeps its settings.
    tokio::task::block_in_place(|| follow_logs(&witness, &start.logs))?;
    Config::follow(dir, start.given)?;
    let door = (start.address, &start.proxies[..]);
    serve(Arc::new(witness), dir, door, stop, ready).await
}

/// Adds the logs that a start names, or follows them to their new addresses.
fn follow_logs(witness: &Witness, logs: &[Addition]) -> Result<(), ServeError> {
    let outcomes = witness.roster().add(logs).map_err(OpenError::from)?;
    for (log, outcome) in logs.iter().zip(outcomes) {
        if let Outcome::Refused { why } = outcome {
            return Err(ConfigError::Setting(format!("--log {}: {why}", log.vkey)).into());
        }
    }
    Ok(())
}

/// Serves an open witness at an address, behind these proxies, until `stop` turns true.
///
/// # Errors
/// [`ServeError::Gossip`], [`ServeError::Listen`], [`ServeError::Writer`], [`ServeError::Door`].
pub async fn serve(
    witness: Arc<Witness>,
    dir: &Dir,
    (address, proxies): (SocketAddr, &[IpAddr]),
    mut stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Witness, SocketAddr),
) -> Result<(), ServeError> {
    let gossip = Config::load(dir)?;
    let too_many = witness.roster().pull(&gossip.peers);
    too_many.map_err(ConfigError::Setting)?;
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Answers are small and complete: waiting to fill a packet only delays them. A refusal of the option harms nothing.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let mut doors = doors(&witness, dir, (listener, proxies), gossip, &stop);
    ready(&witness, address);
    loop {
        tokio::select! {
            () = tokio::time::sleep(TALLY_TIME) => {
                tokio::task::block_in_place(|| write(&witness));
            }
            Some(ended) = doors.join_next() => {
                // Nobody can come in any more, and whoever started this may start it again.
                if panicked(&witness, "a door", ended) {
                    return Err(ServeError::Door);
                }
            }
            _ = stop.wait_for(|stop| *stop) => break,
        }
        // Whoever started it may start it again; it would answer 500 for ever.
        if !witness.is_running() {
            return Err(ServeError::Writer);
        }
    }
    while let Some(ended) = doors.join_next().await {
        panicked(&witness, "a door", ended);
    }
    tokio::task::block_in_place(|| write(&witness));
    let _ = std::fs::remove_file(dir.admin_socket());
    // The last owner works off what waits.
    tokio::task::block_in_place(|| drop(witness));
    Ok(())
}

/// The doors and what goes on behind them: each a task that ends once `stop` is true.
fn doors(
    witness: &Arc<Witness>,
    dir: &Dir,
    (listener, proxies): (impl Listener<Addr = SocketAddr>, &[IpAddr]),
    gossip: Config,
    stop: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let client = Arc::new(Client::default());
    let router = http::router(witness.clone(), client.clone());
    let crowd = Crowd::new(proxies, EACH_MAX);
    let counting = witness.clone();
    let enter = move |from: &SocketAddr| {
        let entered = crowd.enter(from.ip());
        if entered.is_none() {
            counting.metrics().turned_away();
        }
        entered
    };
    let mut doors = JoinSet::new();
    doors.spawn(listen::serve(listener, router, stop.clone(), enter));
    // A path that is too long for a socket keeps no log from being cosigned; the operator then stops the witness to add one.
    match admin::bind(&dir.admin_socket()) {
        Ok(socket) => {
            let router = admin::router(witness.clone());
            let enter = |_: &_| Some(Guest::uncounted());
            doors.spawn(listen::serve(socket, router, stop.clone(), enter));
        }
        Err(error) => {
            tracing::warn!(%error, path = %dir.admin_socket().display(), "no admin socket");
        }
    }
    if let Some(url) = gossip.webhook.clone() {
        let (witness, client, stop) = (witness.clone(), client.clone(), stop.clone());
        doors.spawn(keep_up("the webhook", witness.clone(), move || {
            webhook::run(witness.clone(), client.clone(), url.clone(), stop.clone())
        }));
    }
    let (pulled, stopped) = (witness.clone(), stop.clone());
    doors.spawn(keep_up("gossip", witness.clone(), move || {
        pull::run(
            pulled.clone(),
            client.clone(),
            gossip.clone(),
            stopped.clone(),
        )
    }));
    doors
}

/// Writes what may wait, and what could not be written before.
fn write(witness: &Witness) {
    witness.write_tallies();
    witness.write_evidence();
    witness.board().write();
}

/// Runs what `start` begins to its end, and again where it ends in a panic.
async fn keep_up<F>(what: &str, witness: Arc<Witness>, start: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while panicked(&witness, what, tokio::spawn(start()).await) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// SIGTERM and SIGINT stop; a second one stops at once, which loses nothing that was answered.
fn signals(stopping: watch::Sender<bool>) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if stopping.send_replace(true) {
                std::process::exit(0);
            }
            tracing::info!("stopping");
        }
    });
    Ok(())
}

/// Returns once there is nothing more to read: a pipe's other end is closed however its process ended, by SIGKILL too.
fn until_end(input: &mut impl io::Read) {
    let mut thrown_away = [0; 64];
    loop {
        match input.read(&mut thrown_away) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
