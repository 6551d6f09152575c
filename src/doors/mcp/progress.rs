//! Writes progress notifications.

use serde::Serialize;
use serde_json::value::RawValue;

use super::message;
use crate::answer::escape::escaped;
use crate::engine::Progress;

/// Returns the notification line for a call's progress.
pub(super) fn progress_line(token: &RawValue, progress: &Progress) -> Vec<u8> {
    // Preserve the token's spelling and integers: rmcp's `ProgressNotificationParam` writes `3` as
    // `3.0`.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        progress_token: &'a RawValue,
        progress: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        message: &'a str,
    }
    let message = match &progress.path {
        Some(path) => &format!("{} {}", progress.what, escaped(path)),
        None => &progress.what.to_string(),
    };
    let params = Params { progress_token: token, progress: progress.done, total: progress.total, message };
    let mut line = Vec::new();
    message::write_call(&mut line, None, "notifications/progress", &params);
    line
}
