//! The Model Context Protocol over standard input and output: one message a line, both eras, the same answers as `POST /mcp`.

use std::{io, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    accept::Accepts,
    answers::{self, Answers},
    era::{self, Era},
    message::{Fault, METHOD, Message, PARAMS, PARSE},
};
use crate::{
    error::Problem,
    limits::BODY_BYTES_MAX,
    tools::{Tool, find, is_offered, tool_hint},
};

/// A call that takes longer says so this often.
const PROGRESS: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1_000 });
/// So many answers may wait for a client that reads slowly.
const ANSWERS_MAX: usize = 16;
/// So many calls are carried at once; further ones wait in the pipe.
const CALLS_MAX: usize = 64;

/// Carries calls to where they are answered.
pub trait Carrier: Send + Sync + 'static {
    /// The answer to a call: that of `POST /v1/<tool>`, or its problem.
    fn carry(
        &self,
        tool: &'static Tool,
        members: Map<String, Value>,
    ) -> impl Future<Output = Result<Value, Value>> + Send;

    /// The names of the tools that whoever asks may call; `None` where that cannot be told.
    fn offered(&self) -> impl Future<Output = Option<Vec<String>>> + Send;
}

/// Answers what comes in until the input ends and every call has its answer.
///
/// # Errors
/// What the system says of the input or the output; a client that no longer reads is an end like any other.
pub async fn serve<C: Carrier>(
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    carrier: &Arc<C>,
) -> io::Result<()> {
    let (answers, waiting) = mpsc::channel(ANSWERS_MAX);
    let writer = tokio::spawn(write(output, waiting));
    let mut calls = JoinSet::new();
    while let Some(line) = line(&mut input).await? {
        let work = match take(&line) {
            Taken::Nothing => continue,
            Taken::Answer(text) => {
                // Nobody reads any more: the input will end too.
                let _ = answers.send(text).await;
                continue;
            }
            Taken::List(form) => Either::List(list(carrier.clone(), form, answers.clone())),
            Taken::Call(call) => Either::Call(carry(carrier.clone(), call, answers.clone())),
        };
        if calls.len() >= CALLS_MAX {
            calls.join_next().await;
        }
        match work {
            Either::List(work) => calls.spawn(work),
            Either::Call(work) => calls.spawn(work),
        };
    }
    while calls.join_next().await.is_some() {}
    drop(answers);
    // OK because the writer does not panic; an error of it is returned.
    writer.await.expect("stdio::serve: the writer")
}

/// One line, without its end; one that is longer than a message can be is cut there, which makes it unreadable.
async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let limit = BODY_BYTES_MAX as u64 + 1;
    (&mut *input)
        .take(limit)
        .read_until(b'\n', &mut line)
        .await?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() > BODY_BYTES_MAX {
        // What is left of it is no message either.
        loop {
            let more = input.fill_buf().await?;
            let (used, ends) = match more.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (more.len(), more.is_empty()),
            };
            input.consume(used);
            if ends {
                break;
            }
        }
    }
    Ok(Some(line))
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<String>,
) -> io::Result<()> {
    while let Some(mut text) = waiting.recv().await {
        text.push('\n');
        let written = match output.write_all(text.as_bytes()).await {
            Ok(()) => output.flush().await,
            error => error,
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// What takes a while: each is a type of its own.
enum Either<L, C> {
    List(L),
    Call(C),
}

/// What a line asks for.
enum Taken {
    Nothing,
    Answer(String),
    List(Box<Answers>),
    Call(Box<Asked>),
}

/// A call as it came.
struct Asked {
    tool: &'static Tool,
    members: Result<Map<String, Value>, Problem>,
    answers: Answers,
    progress: Option<Value>,
}

fn take(line: &[u8]) -> Taken {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Taken::Nothing;
    }
    if line.len() > BODY_BYTES_MAX {
        let why = format!("a message has at most {BODY_BYTES_MAX} bytes");
        return Taken::Answer(Fault::new(PARSE, why).answer(None));
    }
    let message = match Message::read(line) {
        Ok(message) => message,
        Err((id, fault)) => return Taken::Answer(fault.answer(id.as_ref())),
    };
    // Nothing that a client can notify of concerns a server that keeps nothing of it.
    let Some(id) = message.id.clone() else {
        return Taken::Nothing;
    };
    let fault = |fault: Fault| Taken::Answer(fault.answer(Some(&id)));
    let era = match Era::of_body(&message) {
        Ok(era) => era,
        Err(wrong) => return fault(wrong),
    };
    let accepts = Accepts {
        json: true,
        events: false,
    };
    let answers = Answers::new(Some(id.clone()), accepts, era);
    let result = match (era, message.method.as_str()) {
        (Era::Modern, "server/discover") => answers::discovered(),
        (Era::Legacy, "initialize") => {
            answers::initialized(era::negotiated(message.params.protocol_version.as_ref()))
        }
        (Era::Legacy, "ping") => json!({}),
        (_, "tools/list") if message.params.cursor.is_some() => {
            return fault(Fault::new(PARAMS, "cursor: the list has one page"));
        }
        (_, "tools/list") => return Taken::List(Box::new(answers)),
        (_, "tools/call") => {
            return match call(&message, answers) {
                Ok(asked) => Taken::Call(Box::new(asked)),
                Err(unknown) => fault(unknown),
            };
        }
        (_, method) => {
            let shown: String = method.chars().take(64).collect();
            return fault(Fault::new(METHOD, format!("Method not found: {shown}")));
        }
    };
    Taken::Answer(answers.text(result))
}

fn call(message: &Message<'_>, answers: Answers) -> Result<Asked, Fault> {
    let named = message.params.name.as_ref().and_then(Value::as_str);
    let tool = named.and_then(find).ok_or_else(|| {
        let shown: String = named.unwrap_or("").chars().take(64).collect();
        Fault::new(
            PARAMS,
            format!("Unknown tool: {shown}{}", tool_hint(&shown)),
        )
    })?;
    let token = message.params.meta("progressToken");
    let token = token.filter(|token| token.is_string() || token.is_number());
    Ok(Asked {
        tool,
        members: message.arguments(),
        answers,
        progress: token.cloned(),
    })
}

/// The list of tools, as the account's policy leaves them to whoever asks. Where that cannot be told all are listed that a key of a
/// session can sign for: what is refused is refused when it is called.
async fn list<C: Carrier>(carrier: Arc<C>, answers: Box<Answers>, to: mpsc::Sender<String>) {
    let names = carrier.offered().await;
    let result = answers::listed_of(|tool| {
        let leaves = |names: &Vec<String>| names.iter().any(|name| name == tool.name);
        is_offered(tool, None) && names.as_ref().is_none_or(leaves)
    });
    let _ = to.send(answers.text(result)).await;
}

/// Carries a call, and says that it goes on while it takes long.
async fn carry<C: Carrier>(carrier: Arc<C>, asked: Box<Asked>, to: mpsc::Sender<String>) {
    let Asked {
        tool,
        members,
        answers,
        progress,
    } = *asked;
    let work = async {
        match members {
            Ok(members) => carrier.carry(tool, members).await,
            Err(problem) => Err(problem.to_json()),
        }
    };
    tokio::pin!(work);
    let mut seconds = 0;
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            () = tokio::time::sleep(PROGRESS) => {
                seconds += 1;
                if let Some(token) = &progress {
                    // Who does not read any more learns nothing; the write stands.
                    let _ = to.send(answers::progress_text(token, seconds)).await;
                }
            }
        }
    };
    let _ = to.send(answers.text(answers::called(result))).await;
}

#[cfg(test)]
mod tests;
