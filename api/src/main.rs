//! `countersign`: everything in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Once for the process: TLS of the service and of the client. A second provider would be refused, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    countersign_api::cli::main()
}
