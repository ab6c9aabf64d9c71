//! `config.toml` and `COUNTERSIGN_…`: what no decision reads.
//!
//! Every key has a default, so an empty file is a configuration. An unknown key is an error, in the file as in the environment:
//! a setting that is silently not in force is worse than a start that fails. Nested keys use `__` in the environment:
//! `COUNTERSIGN_TLS__CERT`. Only this module reads the environment (and the command line's own variables, through its parser).

mod error;
mod faults;
mod layers;
mod mcp;
mod over;

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{data_dir::DataDir, files};
pub use error::{ConfigError, Fault};
pub use layers::{Layers, Setting, Source};

/// Variables of the command line and of the tests: not configuration.
const NOT_CONFIGURATION: &[&str] = &[
    "DIR",
    "URL",
    "ACCOUNT",
    "TOKEN",
    "TOKEN_FILE",
    "KEY",
    "WITNESS_DIR",
    "WITNESS_TRACE",
    "BLESS",
    "PINS",
    "WEBHOOK",
];

/// The configuration in force. Sizes are bytes, times are in the unit that the name ends in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the service listens.
    pub listen: SocketAddr,
    /// The URL that clients know it by, without a final slash; absent: made from `listen`.
    pub public_url: Option<String>,
    /// TLS; absent: plain HTTP, for loopback or behind a proxy.
    pub tls: Option<Tls>,
    /// Bounds on what clients may do.
    pub limits: Limits,
    /// What goes to standard error.
    pub trace: Trace,
    /// Where Prometheus reads.
    pub metrics: Metrics,
    /// Memory of the stores.
    pub store: Store,
    /// How the witnesses are asked.
    pub witnesses: Witnesses,
    /// `POST /mcp`.
    pub mcp: Mcp,
    /// How many accounts are open.
    pub accounts: Accounts,
    /// Bodies beside the logs.
    pub blobs: Blobs,
    // Whether the command line said where to listen, in place of what was read.
    #[serde(skip)]
    pub(crate) listen_given: bool,
}

/// Certificate chain and key, PEM. Read again on SIGHUP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Bounds on what clients may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections; one more gets the place of the client that has kept the service waiting longest.
    pub connections: usize,
    /// Requests being answered, their bodies complete; one more is told to come again (503).
    pub requests: usize,
    /// Memory for the bodies of all requests being answered; the large body that has been arriving for longest gives way, and a request that finds no room still is told to come again (503).
    pub body_memory_bytes: usize,
    /// Request line and headers together.
    pub header_bytes: usize,
    /// How long a client may take to send its headers, in seconds.
    pub header_timeout_s: u64,
    /// How long a client may take to send its body, in seconds.
    pub request_timeout_s: u64,
    /// How long a client may leave an answer untaken before its connection is cut, in seconds.
    pub write_timeout_s: u64,
    /// Watchers of `GET /v1/events`; one more is told to come again (503).
    pub watchers: usize,
    /// Of these, those of one account; one more is told so (429).
    pub watchers_per_account: usize,
    /// Of these, those of one identity, whatever its tokens; one more is told so (429).
    pub watchers_per_identity: usize,
    /// How long a stop waits for requests that are being answered, in seconds.
    pub shutdown_timeout_s: u64,
}

/// What goes to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// `text` or `json`.
    pub format: TraceFormat,
    /// As `tracing` filters: `info`, `countersign_log=debug,info`.
    pub filter: String,
}

/// How a line of the trace looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Where Prometheus reads, besides `GET /metrics` with the owner's token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// A loopback address of its own, without a token.
    pub listen: Option<SocketAddr>,
}

/// Memory of the stores of all accounts together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Blocks read.
    pub cache_bytes: usize,
    /// Writes not yet in files.
    pub write_buffer_bytes: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8780)),
            public_url: None,
            tls: None,
            limits: Limits::default(),
            trace: Trace::default(),
            metrics: Metrics::default(),
            store: Store::default(),
            witnesses: Witnesses::default(),
            mcp: Mcp::default(),
            accounts: Accounts::default(),
            blobs: Blobs::default(),
            listen_given: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4_096,
            requests: 2_048,
            body_memory_bytes: 256 << 20,
            header_bytes: 16_384,
            header_timeout_s: 10,
            request_timeout_s: 60,
            write_timeout_s: 30,
            watchers: 256,
            watchers_per_account: 128,
            watchers_per_identity: 16,
            shutdown_timeout_s: 30,
        }
    }
}

/// The door for clients of the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// Pages that may ask, by origin (`https://tools.example.com`), besides the service's own and, where it is on this machine, those of this machine.
    pub origins: Vec<String>,
    /// The issuer whose JSON Web Tokens are taken besides the service's own tokens (`https://login.example.com`), word for word as its tokens name it; absent: none.
    pub authorization_server: Option<String>,
    /// The claim of such a token that names its subject; `countersign token bind` says which seat a subject is.
    pub subject_claim: String,
    /// What such a token must be good for, each of them; clients are told to ask for these.
    pub scopes: Vec<String>,
}

impl Default for Mcp {
    fn default() -> Mcp {
        Mcp {
            origins: Vec::new(),
            authorization_server: None,
            subject_claim: "sub".into(),
            scopes: Vec::new(),
        }
    }
}

/// How the witnesses of an account's policy are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Witnesses {
    /// A quorum that a head waited for so long counts as lost until it is met.
    pub round_timeout_ms: u64,
    /// The least time between two heads that are sent; 0 where the witnesses are near.
    pub head_interval_ms: u64,
    /// One request to one witness takes at most this long.
    pub request_timeout_ms: u64,
    /// An idle log asks again once its cosignatures are this old.
    pub refresh_s: u64,
}

impl Default for Witnesses {
    fn default() -> Witnesses {
        Witnesses {
            round_timeout_ms: 1_000,
            head_interval_ms: 0,
            request_timeout_ms: 10_000,
            refresh_s: 3_600,
        }
    }
}

/// How many accounts are open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Accounts {
    /// Open at a time; for one more, the one that nobody has asked for the longest is closed.
    pub open_max: usize,
    /// One of several that nobody asks for is closed after so many seconds; 0: never.
    pub idle_s: u64,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            open_max: 200,
            idle_s: 900,
        }
    }
}

/// Bodies beside the logs: how many, and how much of the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Blobs {
    /// Bytes that one identity may have kept in an account; more are refused (429).
    pub identity_bytes: u64,
    /// Bodies that one identity may have kept in an account.
    pub identity_count: u64,
    /// Bytes that all bodies of an account may have together.
    pub account_bytes: u64,
    /// Bodies of an account.
    pub account_count: u64,
    /// Bodies that come in at a time, in all; one more is told to come again (503). Each takes 256 KiB of `limits.body_memory_bytes`.
    pub uploads: usize,
    /// Bodies that come in at a time from one identity.
    pub identity_uploads: usize,
    /// How long a body may take to come in, in seconds.
    pub timeout_s: u64,
    /// No body is taken that would leave less of the disk than this: a log that finds no room cannot be written (503).
    pub free_bytes_min: u64,
}

impl Default for Blobs {
    fn default() -> Blobs {
        Blobs {
            identity_bytes: 1 << 30,
            identity_count: 10_000,
            account_bytes: 10 << 30,
            account_count: 100_000,
            uploads: 64,
            identity_uploads: 8,
            timeout_s: 300,
            free_bytes_min: 64 << 20,
        }
    }
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            format: TraceFormat::Text,
            filter: "info".into(),
        }
    }
}

impl Default for Store {
    fn default() -> Store {
        Store {
            cache_bytes: 256 << 20,
            write_buffer_bytes: 256 << 20,
        }
    }
}

/// Where programs are looked for: `PATH`, empty without one.
#[must_use]
pub fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Where this user's data lie: `XDG_DATA_HOME`, else `.local/share` in the home folder.
#[must_use]
pub fn user_data_dir() -> Option<PathBuf> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|f| f.is_absolute())
    };
    folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))
}

impl Config {
    /// The file of a directory, if it has one, under the variables of the environment.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &DataDir) -> Result<Config, ConfigError> {
        let path = dir.config();
        let text = match files::read_small(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(ConfigError::Unreadable { path, source }),
        };
        Ok(Config::layers(&path, &text)?.config)
    }

    /// This text of a file, under the variables of the environment, and where each setting comes from.
    ///
    /// # Errors
    /// [`ConfigError::Faults`], all of them.
    pub fn layers(path: &Path, text: &str) -> Result<Layers, ConfigError> {
        // Not UTF-8 becomes marks that no setting has, and is then refused by name.
        let variables = std::env::vars_os().map(|(k, v)| {
            (
                k.to_string_lossy().into_owned(),
                v.to_string_lossy().into_owned(),
            )
        });
        layers::read(&path.display().to_string(), text, variables).map_err(ConfigError::Faults)
    }

    /// What a start would refuse beyond what is read here, by the key: the files of TLS, a filter that is none.
    #[must_use]
    pub fn refused_at_a_start(&self) -> Vec<(&'static str, String)> {
        let tls = self.tls.as_ref().map(crate::doors::tls::Certificate::load);
        let tls = tls.and_then(Result::err).map(|why| ("tls", why));
        let filter = crate::trace::filter(&self.trace).err();
        tls.into_iter()
            .chain(filter.map(|why| ("trace.filter", why)))
            .collect()
    }

    /// The URL that clients reach it by when it listens at `address`.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.public_url
            .clone()
            .unwrap_or_else(|| format!("{scheme}://{address}"))
    }

    /// The URL by which a process on this machine reaches a service at `address`. A certificate holds for the public name alone.
    #[must_use]
    pub fn near_url(&self, mut address: SocketAddr) -> String {
        if self.tls.is_some() {
            return self.url(address);
        }
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let variables = variables.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        layers::read("config.toml", text, variables)
            .map(|layers| layers.config)
            .map_err(|faults| ConfigError::Faults(faults).to_string())
    }

    #[test]
    fn nothing_is_a_configuration_and_variables_lie_over_the_file() {
        assert_eq!(read("", &[]).unwrap(), Config::default());
        let text = "listen = \"127.0.0.1:1\"\n[limits]\nrequests = 7\n";
        let config = read(
            text,
            &[
                ("COUNTERSIGN_LIMITS__REQUESTS", "9"),
                ("COUNTERSIGN_DIR", "/x"),
                ("PATH", "/bin"),
            ],
        )
        .unwrap();
        assert_eq!((config.listen.port(), config.limits.requests), (1, 9));
        let tls = [
            ("COUNTERSIGN_TLS__CERT", "a.pem"),
            ("COUNTERSIGN_TLS__KEY", "b.pem"),
        ];
        assert!(
            read("[tls]\ncert = \"x\"\nkey = \"y\"\n", &tls)
                .unwrap()
                .tls
                .unwrap()
                .cert
                .ends_with("a.pem")
        );
    }

    #[test]
    fn what_is_unknown_or_wrong_is_refused_and_named() {
        for (text, variables, named) in [
            ("lisen = \"127.0.0.1:1\"", &[][..], "lisen"),
            ("listen = \"here\"", &[], "listen"),
            ("[limits]\nrequests = 0", &[], "limits"),
            ("[metrics]\nlisten = \"0.0.0.0:9\"", &[], "metrics.listen"),
            (
                "",
                &[("COUNTERSIGN_LISEN", "127.0.0.1:1")],
                "COUNTERSIGN_LISEN",
            ),
            (
                "",
                &[("COUNTERSIGN_LIMITS__REQUESTS", "many")],
                "COUNTERSIGN_LIMITS__REQUESTS",
            ),
        ] {
            let error = read(text, variables).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
