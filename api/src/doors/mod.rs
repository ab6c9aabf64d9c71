//! Where requests come in: HTTP for everybody, a Unix socket for the operator. Doors decode, call, and encode; they decide nothing.

pub mod admin;
pub mod auth;
pub mod call;
mod cut;
pub mod http;
mod late;
pub mod listen;
pub mod mcp;
pub mod openapi;
mod places;
pub mod shim;
pub mod stream;
pub mod tls;
