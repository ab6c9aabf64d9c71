//! Why there is no configuration.

use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file, or a variable laid over it, is not a configuration.
    #[error("{place}: {why}")]
    Wrong {
        /// The file or the variable.
        place: String,
        /// What is wrong.
        why: String,
    },
}
