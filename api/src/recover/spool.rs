//! A file beside the store for leaves that are proved and not yet stored.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use super::RecoverError;

/// Leaves between the moment when they were proved and the one when they are stored; gone when it is dropped.
pub(super) struct Spool {
    path: PathBuf,
    writer: BufWriter<File>,
    reader: Option<BufReader<File>>,
}

impl Spool {
    pub(super) fn create(path: PathBuf) -> Result<Spool, RecoverError> {
        // What an attempt before left, or what a link leads to, is never written over.
        let removed = match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        let file = removed.and_then(|()| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
        });
        match file {
            Ok(file) => Ok(Spool {
                path,
                writer: BufWriter::new(file),
                reader: None,
            }),
            Err(source) => Err(RecoverError::File { path, source }),
        }
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> RecoverError + use<> {
        let path = self.path.clone();
        move |source| RecoverError::File { path, source }
    }

    pub(super) fn append(&mut self, leaves: &[&[u8]]) -> Result<(), RecoverError> {
        let failed = self.failed();
        let mut write = || -> io::Result<()> {
            for leaf in leaves {
                // OK because an entry of a bundle has at most 65,535 bytes.
                let length = u16::try_from(leaf.len()).map_err(io::Error::other)?;
                self.writer.write_all(&length.to_be_bytes())?;
                self.writer.write_all(leaf)?;
            }
            Ok(())
        };
        write().map_err(failed)
    }

    pub(super) fn rewind(&mut self) -> Result<(), RecoverError> {
        let failed = self.failed();
        let mut turn = || -> io::Result<BufReader<File>> {
            self.writer.flush()?;
            let mut file = self.writer.get_ref().try_clone()?;
            file.rewind()?;
            Ok(BufReader::new(file))
        };
        self.reader = Some(turn().map_err(failed)?);
        Ok(())
    }

    pub(super) fn next(&mut self, count: usize) -> Result<Vec<Vec<u8>>, RecoverError> {
        let failed = self.failed();
        let Some(reader) = &mut self.reader else {
            return Ok(Vec::new());
        };
        let mut read = || -> io::Result<Vec<u8>> {
            let mut length = [0; 2];
            reader.read_exact(&mut length)?;
            let mut leaf = vec![0; usize::from(u16::from_be_bytes(length))];
            reader.read_exact(&mut leaf)?;
            Ok(leaf)
        };
        let leaves: io::Result<Vec<Vec<u8>>> = (0..count).map(|_| read()).collect();
        leaves.map_err(failed)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // What is left is made empty by the next recovery.
        let _ = std::fs::remove_file(&self.path);
    }
}
