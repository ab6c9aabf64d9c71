//! The pure core of Countersign: whoever checks defines the bytes.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
