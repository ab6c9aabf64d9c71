//! `countersign bench`: the figures that the documentation promises, measured beside something else in the same run.
//!
//! A bench starts what it measures as processes of their own on a directory that it removes, makes everything that it sends
//! beforehand, and measures the sides one after the other in several rounds (A B A B …), so that a machine that slows down
//! slows both. It reports medians and the ratios that are promised; the absolute figures belong to the machine.
//!
//! - [`http`]: single receipts, as fast as they are answered or at a fixed rate
//! - [`ndjson`]: receipts in bodies of many lines, beside `verify_strict` alone
//! - [`verify`]: evidence verified offline, beside `verify_strict` alone
//! - [`coordinate`]: leases, sessions and items, beside PostgreSQL; races for one lease; a large state
//! - [`scale`]: start, bytes and memory of a log of many leaves, beside one of a few
//! - [`audit`]: the audit of a static log of many leaves, from its folder and over HTTP
//! - [`open_accounts`]: many accounts, and many of them open
//! - [`flood`]: a writer beside those who send signatures that do not hold
//! - [`witness`]: cosignatures of a witness, beside another witness
//! - [`witnessed`]: the time until a receipt is witnessed
//! - [`rig`]: the servers, the material and the rounds
//! - [`load`], [`wire`], [`answers`]: the load generator
//! - [`live`]: what goes when a bench is stopped
//! - [`report`], [`stats`]: what is made of it

use std::time::Duration;

use serde_json::{Value, json};

pub mod answers;
pub mod audit;
mod bare;
pub mod coordinate;
mod fetch;
pub mod flood;
pub mod http;
pub mod live;
pub mod load;
pub mod material;
pub mod ndjson;
pub mod open_accounts;
pub mod report;
pub mod rig;
pub mod scale;
mod servers;
mod static_log;
pub mod stats;
pub mod verify;
mod watch;
pub mod wire;
pub mod witness;
pub mod witnessed;

#[cfg(test)]
mod tests;

impl rig::Common {
    /// Payload, rounds and machine, for a sentence.
    fn words(&self) -> String {
        format!(
            "payloads of {} bytes, {} CPUs, {} rounds of {}",
            self.payload_bytes,
            watch::cpus(),
            self.rounds,
            seconds(self.window)
        )
    }

    /// The same as names and values, with `more`.
    fn settings(&self, more: Value) -> Value {
        let mut all = json!({
            "payload_bytes": self.payload_bytes,
            "cpus": watch::cpus(),
            "rounds": self.rounds,
            "window_s": self.window.as_secs_f64(),
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        all
    }
}

fn seconds(window: Duration) -> String {
    format!("{} s", window.as_secs_f64())
}
