//! The MCP server: protocol 2025-11-25 with `initialize`, and 2026-07-28 without. One handler serves both.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::tool::{Answer, Call, Failure, News, Outcome, Session};
use super::wire::Wire;
use super::{Tools, stdio};

/// What the server tells a model about itself.
pub const INSTRUCTIONS: &str = "\
Common Lisp code intelligence from a live SBCL image inside this server: answers come from the compiler's own records, \
not from text search.

Start with describe-symbol for any name that you do not know: what it is, its lambda list, documentation, and where it \
is defined. who-calls, who-macroexpands, who-references, who-sets, who-binds and who-specializes tell what uses it; \
ask them before you change or rename something.

Names are read as Lisp reads them: mapcar and MAPCAR are the same, cl:mapcar names its package, |Mixed Case| keeps its \
case, (setf name) is understood. Without a prefix a name is looked up in `package`, which is CL-USER unless given. \
Asking never defines, interns, loads or runs anything, except that printing a variable's value calls its print method.

For the user's own project: load-system loads it, which runs its code; list-systems shows what there is to load. Then \
code-find-references lists every use of a symbol by line and column, with how sure that is (exact, approximate, or via \
a macro), and find-definition its definitions. find_references finds names in the text of any source tree, in many \
languages, without loading anything.

A name that does not exist is an ordinary answer that says so. Long lists are cut at `limit`, and say so. If Lisp has \
died or does not answer, `status` tells why; the who- tools keep answering.";

/// How many calls run at once; more wait.
const THREADS: usize = 64;

/// Why the server ended otherwise than by its client's leaving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system refused a thread or a descriptor.
    #[error("cannot set up the protocol's streams: {0}")]
    System(#[from] io::Error),
    /// The client did not begin as MCP does.
    #[error("the client did not begin as MCP does: {0}")]
    Protocol(String),
}

/// Serves the process's standard input and output until the client leaves. From now on, descriptor 0 is empty, and what
/// the process writes to descriptor 1 goes to standard error. Call it before anything can write there.
///
/// `start` is called once the streams are safe; it gives the session.
///
/// # Errors
/// [`ServeError`], or what `start` says.
pub fn serve_stdio<E: From<ServeError>>(start: impl FnOnce() -> Result<Session, E>) -> Result<(), E> {
    let (input, output) = stdio::take().map_err(ServeError::from)?;
    let session = start()?;
    Ok(serve_on(input, output, session)?)
}

/// Serves one client on a pair of streams until it leaves: until `input` ends, or `output` cannot be written.
///
/// # Errors
/// [`ServeError`].
pub fn serve_on(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    session: Session,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_time()
        .build()?;
    let outcome = runtime.block_on(async {
        let wire = Wire::new(input, output)?;
        let server = Server { session, tools: Arc::new(Tools::all()), gone: wire.gone() };
        let running = match server.serve(wire).await {
            Ok(running) => running,
            // The client left before it began.
            Err(
                ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. },
            ) => {
                return Ok(());
            }
            Err(error) => return Err(ServeError::Protocol(error.to_string())),
        };
        running.waiting().await.map_err(|error| ServeError::Protocol(error.to_string()))?;
        Ok(())
    });
    // Not dropped: a call that cannot be stopped must not keep the process.
    runtime.shutdown_background();
    outcome
}

struct Server {
    session: Session,
    tools: Arc<Tools>,
    gone: watch::Receiver<bool>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let about = Implementation::new("steelbank", env!("CARGO_PKG_VERSION"))
            .with_title("Steelbank")
            .with_description(env!("CARGO_PKG_DESCRIPTION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(about)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.list().iter().map(|tool| serde_json::from_value(tool.listing()));
        let tools: Result<Vec<rmcp::model::Tool>, _> = tools.collect();
        Ok(ListToolsResult::with_all_items(tools.map_err(|error| internal(&error))?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Err(why) = self.tools.get(&request.name) {
            return Err(ErrorData::invalid_params(why, None));
        }
        let (news_sender, mut news) = mpsc::unbounded_channel::<News>();
        let call = Call::new(move |news| {
            // Nobody listens once the call has ended.
            let _ = news_sender.send(news);
        });
        let cancellation = call.cancellation();
        let (tools, session) = (Arc::clone(&self.tools), self.session.clone());
        let mut work = tokio::task::spawn_blocking(move || {
            let tool = tools.get(&request.name).map_err(Failure::Arguments)?;
            tool.call(&session, request.arguments.unwrap_or_default(), &call)
        });
        let token = context.meta.get_progress_token();
        let mut gone = self.gone.clone();
        let mut stopped = false;
        let outcome = loop {
            tokio::select! {
                outcome = &mut work => break outcome,
                Some(news) = news.recv() => if let Some(token) = &token {
                    let mut notification = ProgressNotificationParam::new(token.clone(), news.done)
                        .with_message(news.message);
                    notification.total = news.total;
                    // A client that has left hears no news.
                    let _ = context.peer.notify_progress(notification).await;
                },
                () = context.ct.cancelled(), if !stopped => {
                    stopped = true;
                    cancellation.cancel();
                },
                () = until_gone(&mut gone), if !stopped => {
                    stopped = true;
                    cancellation.cancel();
                },
            }
        };
        Ok(result(outcome.map_err(|error| internal(&error))?).into())
    }

    /// Requests that are none of MCP's, or that lack what MCP requires of them.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        Err(match method.as_str() {
            "tools/call" => {
                let named =
                    params.as_ref().and_then(|params| params.get("name")).is_some_and(Value::is_string);
                let why = if named {
                    "tools/call needs \"arguments\" to be an object."
                } else {
                    "tools/call needs \"name\" to be a string: the name of a tool."
                };
                ErrorData::invalid_params(why, None)
            }
            "initialize" => ErrorData::invalid_params(
                "initialize needs \"protocolVersion\", \"capabilities\" and \"clientInfo\".",
                None,
            ),
            _ => ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("There is no method {}.", super::tool::quoted(&method)),
                None,
            ),
        })
    }
}

fn result(outcome: Result<Answer, Failure>) -> CallToolResult {
    match outcome {
        Ok(answer) => {
            let texts = std::iter::once(answer.text).chain(answer.note.map(str::to_owned));
            let text = texts.map(ContentBlock::text).collect();
            let mut result = match answer.outcome {
                Outcome::Failed => CallToolResult::error(text),
                Outcome::Answered | Outcome::NotFound => CallToolResult::success(text),
            };
            result.structured_content = Some(answer.structured);
            result
        }
        Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.to_string())]),
    }
}

/// Waits until the client does not read any more.
async fn until_gone(gone: &mut watch::Receiver<bool>) {
    // An error means that the writing thread has ended, so nobody reads.
    let _ = gone.wait_for(|gone| *gone).await;
}

fn internal(error: &dyn std::error::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_short_enough_for_hosts() {
        assert!(INSTRUCTIONS.len() <= 2048, "{}", INSTRUCTIONS.len());
    }
}
