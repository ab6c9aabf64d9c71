//! What goes to standard error: text for people or JSON for programs. Secrets never do: no token, no key and no body is traced.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Trace, TraceFormat};

/// Begins to trace.
///
/// # Errors
/// A sentence, if the filter cannot be read.
pub fn init(trace: &Trace) -> Result<(), String> {
    let filter = filter(trace).map_err(|why| format!("trace.filter: {why}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Else what cannot be written, on a full disk for instance, is said once more by what panics.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let begun = match trace.format {
        TraceFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .try_init(),
        TraceFormat::Json => builder.json().try_init(),
    };
    // A second start in one process (tests) keeps the first one's trace.
    begun.or(Ok(()))
}

/// The filter, read.
///
/// # Errors
/// In words.
pub fn filter(trace: &Trace) -> Result<EnvFilter, String> {
    EnvFilter::try_new(&trace.filter).map_err(|e| e.to_string())
}
