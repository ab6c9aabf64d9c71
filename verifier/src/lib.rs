//! The pure core of Countersign: whoever checks defines the bytes.
//!
//! Parsing, hashing and verification, without input or output: `no_std` and `alloc`. Every parser is
//! bounded ([`limits`]), strict, and panics on nothing; every check says which one failed.
//!
//! - [`hash`]: SHA-256, leaf and node hashes
//! - [`base64`]: the one spelling that the text formats take
//! - [`blob`]: bodies beside a log, and the references to them
//! - [`tree`]: inclusion and consistency proofs
//! - [`subtree`]: subtrees, and their proofs
//! - [`range`]: the compact edge of a growing tree
//! - [`tile`]: tiles and entry bundles, names and bytes
//! - [`mldsa`]: ML-DSA-44 keys and signatures
//! - [`vkey`]: verifier keys, and those who sign notes
//! - [`note`]: signed notes, split and opened
//! - [`checkpoint`]: tree heads as notes
//! - [`cosign`]: timestamped cosignatures of witnesses
//! - [`add_checkpoint`]: what log and witness say to each other
//! - [`sign_subtree`]: asking a witness to cosign a subtree
//! - [`log_list`]: lists of logs that ask to be witnessed
//! - [`predecessor`]: the log that a successor goes on from
//! - [`policy`]: which logs and witnesses must have signed
//! - [`rfc6962`]: tree heads of Certificate Transparency as note signatures
//! - [`signed`]: a tree head under the one key of its log
//! - [`proof`]: tlog-proof files
//! - [`multi`]: many leaves under one root in one proof
//! - [`json`]: strict reading and the canonical form
//! - [`key`]: keys of signers in every form, and the identities that they are
//! - [`dsse`]: envelopes, and which keys signed them
//! - [`statement`]: in-toto statements
//! - [`operation`]: what an agent asks for, under its signature
//! - [`leaf`]: the three kinds of leaf, read and written
//! - [`evidence`]: evidence files, and the chain that says who a signer is
//! - [`fork`]: evidence that a log has signed two histories
//! - [`verdict`]: the whole chain, offline
//! - `command`, with the feature `cli`: the command line of `countersign-verify`
//! - [`limits`]: every bound, with its arithmetic
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(feature = "cli")]
extern crate std;

pub mod add_checkpoint;
pub mod base64;
pub mod blob;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod command;
pub mod cosign;
mod decimal;
pub mod dsse;
pub mod evidence;
pub mod fork;
pub mod hash;
pub mod json;
pub mod key;
pub mod leaf;
pub mod limits;
pub mod log_list;
mod millis;
pub mod mldsa;
pub mod multi;
pub mod note;
pub mod operation;
pub mod policy;
pub mod predecessor;
pub mod proof;
pub mod range;
pub mod rfc6962;
mod scan;
pub mod sign_subtree;
pub mod signed;
mod signer;
pub mod statement;
pub mod subtree;
pub mod tile;
pub mod tree;
pub mod verdict;
pub mod vkey;
pub mod words;
