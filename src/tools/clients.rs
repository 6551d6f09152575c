//! The clients that share an image, and what of a session is one client's alone.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::session::{Permission, Permissions};
use crate::handle::recovery::NOTES;

/// The clients that share the image of this process.
#[derive(Debug, Default)]
pub struct Clients {
    last: AtomicU64,
    seats: Mutex<BTreeMap<u64, ConnectedClient>>,
}

/// What a client of an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "String")]
#[non_exhaustive]
pub enum ClientKind {
    /// It calls tools.
    Agent,
    /// A person works in it: what is not saved there is its own.
    Editor,
}

/// A client that shares the image with others, as `status` tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ConnectedClient {
    /// Its number among the clients of the image.
    pub number: u64,
    /// Its name and version, as it has given them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is: agent or editor.
    pub kind: ClientKind,
    /// The number of the process that has joined for it.
    pub process: i32,
    /// The options of what it may do.
    pub allowed: Vec<String>,
}

impl std::fmt::Display for ConnectedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.as_deref().unwrap_or("a client without a name");
        let kind = if self.kind == ClientKind::Editor { "editor, " } else { "" };
        write!(f, "{name} ({kind}process {})", self.process)
    }
}

/// What of a session is one client's: its place among the clients, its edits, and how often it was told of a restart.
#[derive(Debug)]
pub(crate) struct Seat {
    clients: Arc<Clients>,
    number: u64,
    edits: Mutex<Vec<String>>,
    /// The handles that answers have given it.
    handles: Mutex<HashSet<String>>,
    pub(super) told_of_restarts: AtomicUsize,
}

impl Seat {
    /// Seats a new client.
    pub(crate) fn new(
        clients: &Arc<Clients>,
        kind: ClientKind,
        process: i32,
        permissions: Permissions,
    ) -> Self {
        let number = clients.last.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        // Tell it of no restart: it has seen none.
        Self::take(clients, (number, Vec::new()), kind, process, permissions, NOTES)
    }

    /// Seats a client that had `number` and `edits` in the image before this one.
    pub(crate) fn resume(
        clients: &Arc<Clients>,
        had: (u64, Vec<String>),
        kind: ClientKind,
        process: i32,
        permissions: Permissions,
    ) -> Self {
        clients.last.fetch_max(had.0, std::sync::atomic::Ordering::SeqCst);
        Self::take(clients, had, kind, process, permissions, 0)
    }

    fn take(
        clients: &Arc<Clients>,
        (number, edits): (u64, Vec<String>),
        kind: ClientKind,
        process: i32,
        permissions: Permissions,
        told: usize,
    ) -> Self {
        let granted = [(Permission::Edits, permissions.edits), (Permission::Eval, permissions.eval)];
        let allowed = granted.iter().filter(|(_, granted)| *granted);
        let allowed = allowed.map(|(permission, _)| permission.option().to_owned()).collect();
        let client = ConnectedClient { number, name: None, kind, process, allowed };
        clients.seats.lock().insert(number, client);
        Self {
            clients: Arc::clone(clients),
            number,
            edits: Mutex::new(edits),
            handles: Mutex::default(),
            told_of_restarts: AtomicUsize::new(told),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes the name that the client has given.
    pub(crate) fn set_name(&self, name: &str) {
        if let Some(client) = self.clients.seats.lock().get_mut(&self.number) {
            client.name = Some(name.to_owned());
        }
    }

    /// Lists all clients, this one included.
    pub(crate) fn all(&self) -> Vec<ConnectedClient> {
        self.clients.seats.lock().values().cloned().collect()
    }

    /// Lists the other clients.
    pub(crate) fn others(&self) -> Vec<ConnectedClient> {
        self.all().into_iter().filter(|client| client.number != self.number).collect()
    }

    /// Notes the handles in an answer: this client may look into their objects.
    pub(super) fn note_handles(&self, answer: &Value) {
        match answer {
            Value::Object(fields) => {
                let handle = fields.get("handle").and_then(Value::as_str);
                self.handles.lock().extend(handle.map(str::to_owned));
                fields.values().for_each(|value| self.note_handles(value));
            }
            Value::Array(values) => values.iter().for_each(|value| self.note_handles(value)),
            _ => (),
        }
    }

    /// Whether an answer has given the client this handle.
    pub(super) fn has_handle(&self, handle: &str) -> bool {
        self.handles.lock().contains(handle)
    }

    /// Notes an edit that this client may undo as its last.
    pub(crate) fn note_edit(&self, edit: &str) {
        self.edits.lock().push(edit.to_owned());
    }

    /// Notes that the edit was undone, or is gone.
    pub(crate) fn forget_edit(&self, edit: &str) {
        self.edits.lock().retain(|other| other != edit);
    }

    /// Lists the client's edits, oldest first.
    pub(crate) fn edits(&self) -> Vec<String> {
        self.edits.lock().clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.clients.seats.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_listed_until_its_last_call_has_ended() {
        let clients = Arc::<Clients>::default();
        let first = Seat::new(&clients, ClientKind::Agent, 10, Permissions::ALL);
        let second = Arc::new(Seat::new(&clients, ClientKind::Editor, 20, Permissions::default()));
        second.set_name("b 1");
        let others = first.others();
        assert_eq!(others[0].to_string(), "b 1 (editor, process 20)");
        assert_eq!((others.len(), first.all().len(), others[0].allowed.len()), (1, 2, 0));
        assert_eq!(second.others()[0].allowed, ["--allow-edits", "--allow-eval"]);
        let of_a_call = Arc::clone(&second);
        drop(second);
        assert_eq!(first.others().len(), 1);
        drop(of_a_call);
        assert!(first.others().is_empty());
        // Numbers go on after a restart.
        let next = Arc::<Clients>::default();
        let again = Seat::resume(
            &next,
            (first.number(), vec!["4".to_owned()]),
            first.all()[0].kind,
            10,
            Permissions::ALL,
        );
        assert_eq!(
            (again.edits(), Seat::new(&next, ClientKind::Agent, 30, Permissions::ALL).number()),
            (vec!["4".to_owned()], 2)
        );
    }
}
