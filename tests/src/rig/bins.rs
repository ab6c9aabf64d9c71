//! Where the built executables are.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

/// The executable `countersign`.
pub fn countersign() -> &'static Path {
    built(0)
}

/// The executable `countersign-verify`.
pub fn countersign_verify() -> &'static Path {
    built(1)
}

/// The executable `countersign-witness`.
pub fn countersign_witness() -> &'static Path {
    built(2)
}

/// Each executable and the packages of ours that are in it.
const EXECUTABLES: [(&str, &[&str]); 3] = [
    ("countersign", &["api", "log", "verifier", "witness"]),
    ("countersign-verify", &["verifier"]),
    ("countersign-witness", &["verifier", "witness"]),
];

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    // OK because this package is a folder of the workspace.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

/// Beside the test's own executable, two folders up: `target/<profile>/deps/it-…`.
///
/// Cargo builds them there before it runs any test of the workspace, but not when this package is tested alone; so they are
/// built here when they are absent or older than a source.
fn built(executable: usize) -> &'static Path {
    static BUILT: [OnceLock<PathBuf>; EXECUTABLES.len()] = [const { OnceLock::new() }; 3];
    static BUILDING: Mutex<()> = Mutex::new(());
    BUILT[executable].get_or_init(|| {
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test
            .parent()
            .and_then(Path::parent)
            .expect("target/<profile>");
        let (name, packages) = EXECUTABLES[executable];
        let path = profile.join(name);
        // One build makes all of them: whoever waited for it finds its own made.
        let _held = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        if stale(&path, packages) {
            build(profile);
        }
        path
    })
}

fn stale(executable: &Path, packages: &[&str]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    let Some(built) = modified(executable) else {
        return true;
    };
    let newest = packages
        .iter()
        .flat_map(|package| files(&workspace().join(package).join("src"), "rs"))
        .filter_map(|path| modified(&path))
        .max();
    newest.unwrap_or(SystemTime::UNIX_EPOCH) > built
}

fn build(profile: &Path) {
    let name = profile.file_name().and_then(|n| n.to_str());
    let target = profile.parent().expect("target");
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo
        .current_dir(workspace())
        // As `make test` does: another selection would have other features, and half of the tree would be compiled again.
        .args(["build", "--locked", "--workspace", "--all-targets"])
        .args([
            "--profile",
            if name == Some("debug") {
                "dev"
            } else {
                "release"
            },
        ])
        .env("CARGO_TARGET_DIR", target);
    // What cargo tells a test about its package: build scripts that read it would take it for a change and run again.
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"];
        if of_package
            .iter()
            .any(|p| name.to_string_lossy().starts_with(p))
        {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "cargo build of the executables: {status}");
}

/// All files below a folder with this extension, sorted; none where there is no folder.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|n| n != "target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
