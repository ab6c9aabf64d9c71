//! A running witness from its lock to its last answer.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::serve::ListenerExt;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::dir::Dir;
use crate::gossip::client::Client;
use crate::gossip::config::{Config, ConfigError, Given};
use crate::gossip::{pull, webhook};
use crate::http::{self, admin, listen};
use crate::witness::{OpenError, Witness};

/// How often what was counted is written.
const TALLY_TIME: Duration = Duration::from_secs(10);

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
    /// Signals, or the end of whoever started it, cannot be heard.
    #[error("signals: {0}")]
    Signals(io::Error),
}

/// Serves the witness at `dir` until SIGTERM or SIGINT, or with `with_parent` until standard input ends. What is `given` of
/// gossip is kept in the directory. `ready` is called once requests are accepted.
///
/// # Errors
/// [`ServeError`].
pub async fn run(
    dir: &Dir,
    address: SocketAddr,
    with_parent: bool,
    given: Given,
    ready: impl FnOnce(&Witness, SocketAddr),
) -> Result<(), ServeError> {
    let (stopping, stop) = watch::channel(false);
    signals(stopping.clone()).map_err(ServeError::Signals)?;
    if with_parent {
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
    Config::follow(dir, given)?;
    serve(Arc::new(witness), dir, address, stop, ready).await
}

/// Serves an open witness until `stop` turns true.
///
/// # Errors
/// [`ServeError::Gossip`], [`ServeError::Listen`], [`ServeError::Writer`].
pub async fn serve(
    witness: Arc<Witness>,
    dir: &Dir,
    address: SocketAddr,
    mut stop: watch::Receiver<bool>,
    ready: impl FnOnce(&Witness, SocketAddr),
) -> Result<(), ServeError> {
    let gossip = Config::load(dir)?;
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Answers are small and complete: waiting to fill a packet only delays them. A refusal of the option harms nothing.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let client = Arc::new(Client::default());
    let router = http::router(witness.clone(), client.clone());
    let mut doors = vec![tokio::spawn(listen::serve(listener, router, stop.clone()))];
    // A path that is too long for a socket keeps no log from being cosigned; the operator then stops the witness to add one.
    match admin::bind(&dir.admin_socket()) {
        Ok(socket) => {
            let router = admin::router(witness.clone());
            doors.push(tokio::spawn(listen::serve(socket, router, stop.clone())));
        }
        Err(error) => {
            tracing::warn!(%error, path = %dir.admin_socket().display(), "no admin socket");
        }
    }
    if let Some(url) = gossip.webhook.clone() {
        let telling = webhook::run(witness.clone(), client.clone(), url, stop.clone());
        doors.push(tokio::spawn(telling));
    }
    let pulling = pull::run(witness.clone(), client, gossip, stop.clone());
    doors.push(tokio::spawn(pulling));
    ready(&witness, address);
    loop {
        tokio::select! {
            () = tokio::time::sleep(TALLY_TIME) => {
                tokio::task::block_in_place(|| witness.write_tallies());
            }
            _ = stop.wait_for(|stop| *stop) => break,
        }
        // Whoever started it may start it again; it would answer 500 for ever.
        if !witness.is_running() {
            return Err(ServeError::Writer);
        }
    }
    for door in doors {
        if let Err(error) = door.await {
            tracing::error!(%error, "a door ended in a panic");
        }
    }
    witness.write_tallies();
    let _ = std::fs::remove_file(dir.admin_socket());
    // The last owner works off what waits.
    tokio::task::block_in_place(|| drop(witness));
    Ok(())
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
