//! What stands behind the door: who asks, what tools there are, and their calls. The service is one (`product`); another, of the tests
//! (`api/examples/mcp_fixture.rs`), has the tools that the protocol's conformance suite calls by name.

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, http::HeaderMap, response::Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Problem;

/// What the address may carry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// For which account, where who asks leaves that open.
    pub account: Option<String>,
}

/// A call as it came.
pub struct Asked<'a, H> {
    /// The tool's name; empty where none was given.
    pub name: &'a str,
    /// Its arguments, or what is wrong with them.
    pub arguments: Result<Map<String, Value>, Problem>,
    /// The memory of its body, and its turn: to be kept while the call runs.
    pub held: H,
}

/// What a call is.
pub enum Called {
    /// There is no tool of this name; what may help.
    Unknown(String),
    /// Its result, once it is there.
    Work(Pin<Box<dyn Future<Output = Value> + Send>>),
}

/// What stands behind the door.
pub trait Host: Send + Sync + Sized + 'static {
    /// Who asks.
    type Caller: Send + Sync + 'static;
    /// What a request holds while it is answered.
    type Held: Send + 'static;

    /// The URL that clients know it by.
    fn url(&self) -> &str;

    /// Pages that may ask besides its own.
    fn origins(&self) -> &[String];

    /// Who asks.
    ///
    /// # Errors
    /// A refusal of whoever says that it is somebody, and is not.
    fn caller(
        &self,
        headers: &HeaderMap,
        named: Named,
    ) -> impl Future<Output = Result<Self::Caller, Problem>> + Send;

    /// Refuses whoever has not said who it is, where that is needed.
    ///
    /// # Errors
    /// The refusal.
    fn must_be_known(&self, caller: &Self::Caller) -> Result<(), Problem>;

    /// The body of a request, and what it holds.
    ///
    /// # Errors
    /// Too large, too slow, or no room for it.
    fn body(
        &self,
        request: Request,
        caller: &Self::Caller,
    ) -> impl Future<Output = Result<(Bytes, Self::Held), Problem>> + Send;

    /// How many bytes a call of this tool may have.
    fn limit_of(&self, tool: &str) -> usize;

    /// The result of `tools/list`.
    fn listed(&self, caller: &Self::Caller) -> Value;

    /// A call: nothing of it runs before its result is waited for.
    ///
    /// # Errors
    /// A refusal of HTTP's.
    fn call(
        self: &Arc<Self>,
        caller: Self::Caller,
        asked: Asked<'_, Self::Held>,
    ) -> Result<Called, Problem>;

    /// A refusal of HTTP's as it is answered.
    fn refused(&self, problem: Problem) -> Response;
}
