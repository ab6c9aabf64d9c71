//! What each noun does, over HTTP, as the design has it. A file a noun.

mod audit;
mod board;
mod bodies;
mod config;
mod disks;
mod duplicates;
mod evidence;
mod gossip;
mod heads;
mod hostile;
mod identities;
mod lifecycle;
mod ndjson;
mod operations;
mod pins;
mod policy;
mod public;
mod quorum;
mod races;
mod receipts;
mod recovery;
mod succession;
mod tiles;
mod tls;
mod witnessed;
