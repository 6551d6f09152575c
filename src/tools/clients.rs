//! Tracks the clients that share an image. [`Clients`] lists them for `status`; a [`ClientSlot`]
//! holds the state of one client's session: its edits, its handles and the restart notes it has
//! received.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::session::{Permission, Permissions};
use crate::handle::recovery::MAX_RESTART_NOTES;

/// The clients that share the image of this process.
#[derive(Debug, Default)]
pub struct Clients {
    last: AtomicU64,
    slots: Mutex<BTreeMap<u64, ConnectedClient>>,
}

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "String")]
#[non_exhaustive]
pub enum ClientKind {
    /// An agent, which calls tools.
    Agent,
    /// An editor that a person uses. No other client sees its unsaved text.
    Editor,
}

/// A client that shares the image with others, as `status` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ConnectedClient {
    /// The client's number in this image.
    pub number: u64,
    /// The client's name and version, as it reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kind of client: agent or editor.
    pub kind: ClientKind,
    /// The process ID of the client's `steelbank` process.
    pub process: i32,
    /// The options that grant the client's permissions.
    pub allowed: Vec<String>,
}

impl std::fmt::Display for ConnectedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.as_deref().unwrap_or("an unnamed client");
        let kind = if self.kind == ClientKind::Editor { "editor, " } else { "" };
        write!(f, "{name} ({kind}process {})", self.process)
    }
}

/// The state of one client of a shared image: its entry in [`Clients`], its edits, its handles, and
/// the number of restart notes it has received. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    clients: Arc<Clients>,
    number: u64,
    edits: Mutex<Vec<String>>,
    /// The handles that this client's answers contained.
    handles: Mutex<HashSet<String>>,
    pub(super) restart_notes_shown: AtomicUsize,
}

impl ClientSlot {
    /// Adds a new client.
    pub(crate) fn new(
        clients: &Arc<Clients>,
        kind: ClientKind,
        process: i32,
        permissions: Permissions,
    ) -> Self {
        let number = clients.last.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        // A new client gets no notes about earlier restarts.
        Self::take(clients, (number, Vec::new()), kind, process, permissions, MAX_RESTART_NOTES)
    }

    /// Adds a client that had `number` and `edits` before the image was restarted.
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
        clients.slots.lock().insert(number, client);
        Self {
            clients: Arc::clone(clients),
            number,
            edits: Mutex::new(edits),
            handles: Mutex::default(),
            restart_notes_shown: AtomicUsize::new(told),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Records the name that the client reported.
    pub(crate) fn set_name(&self, name: &str) {
        if let Some(client) = self.clients.slots.lock().get_mut(&self.number) {
            client.name = Some(name.to_owned());
        }
    }

    /// Lists all clients, this one included.
    pub(crate) fn all(&self) -> Vec<ConnectedClient> {
        self.clients.slots.lock().values().cloned().collect()
    }

    /// Lists the other clients.
    pub(crate) fn others(&self) -> Vec<ConnectedClient> {
        self.all().into_iter().filter(|client| client.number != self.number).collect()
    }

    /// Records the handles in an answer, so that this client may inspect their objects.
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

    /// Returns whether an answer to this client contained the handle.
    pub(super) fn has_handle(&self, handle: &str) -> bool {
        self.handles.lock().contains(handle)
    }

    /// Records an edit of this client. An undo of `last` means the newest recorded edit.
    pub(crate) fn note_edit(&self, edit: &str) {
        self.edits.lock().push(edit.to_owned());
    }

    /// Removes an edit that was undone or no longer exists.
    pub(crate) fn forget_edit(&self, edit: &str) {
        self.edits.lock().retain(|other| other != edit);
    }

    /// Lists the client's edits, oldest first.
    pub(crate) fn edits(&self) -> Vec<String> {
        self.edits.lock().clone()
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.clients.slots.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_listed_until_their_last_call_ends() {
        let clients = Arc::<Clients>::default();
        let first = ClientSlot::new(&clients, ClientKind::Agent, 10, Permissions::ALL);
        let second = Arc::new(ClientSlot::new(&clients, ClientKind::Editor, 20, Permissions::default()));
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
        // Numbers continue after a restart.
        let next = Arc::<Clients>::default();
        let again = ClientSlot::resume(
            &next,
            (first.number(), vec!["4".to_owned()]),
            first.all()[0].kind,
            10,
            Permissions::ALL,
        );
        assert_eq!(
            (again.edits(), ClientSlot::new(&next, ClientKind::Agent, 30, Permissions::ALL).number()),
            (vec!["4".to_owned()], 2)
        );
    }
}
