//! The pure core of Countersign: whoever checks defines the bytes.
//!
//! Parsing, hashing and verification, without input or output: `no_std` and `alloc`. Every parser is
//! bounded ([`limits`]), strict, and panics on nothing; every check says which one failed.
//!
//! Trees: [`hash`], [`tree`], [`range`], [`tile`].
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod base64;
pub mod dsse;
pub mod hash;
pub mod json;
pub mod key;
pub mod leaf;
pub mod limits;
mod millis;
pub mod multi;
pub mod operation;
pub mod range;
mod scan;
pub mod statement;
pub mod tile;
pub mod tree;
