//! TLS by rustls, read again on SIGHUP. A file that cannot be read then leaves the one in force.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// The certificate in force.
pub struct Certificate {
    files: Tls,
    config: ArcSwap<ServerConfig>,
}

impl Certificate {
    /// Reads both files.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn load(files: &Tls) -> Result<Certificate, String> {
        Ok(Certificate {
            config: ArcSwap::new(read(files)?),
            files: files.clone(),
        })
    }

    /// Reads both files again.
    ///
    /// # Errors
    /// As [`Certificate::load`]; what was in force stays so.
    pub fn reload(&self) -> Result<(), String> {
        self.config.store(read(&self.files)?);
        Ok(())
    }

    /// For the next connection.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn read(files: &Tls) -> Result<Arc<ServerConfig>, String> {
    let (cert, key) = (files.cert.display(), files.key.display());
    let chain =
        CertificateDer::pem_file_iter(&files.cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|e| format!("{cert}: {e}"))?;
    let private = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| format!("{key}: {e}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| format!("{cert} with {key}: {e}"))?;
    Ok(Arc::new(config))
}
