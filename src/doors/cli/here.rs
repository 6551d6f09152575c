//! `steelbank` without a command: lists the project's systems and suggests commands.

use serde_json::json;

use super::{CommandError, Exit, Shell, command_line};
use crate::ListSystemsRequest;
use crate::answer::counted;
use crate::engine::control::Control;

/// Prints the project's systems and some commands to try. Without a project, prints the help.
pub(super) fn run(shell: &Shell) -> Result<Exit, CommandError> {
    let Some(folder) = shell.options.project.root()?.folder() else {
        shell.output.text(&command_line().render_help().to_string())?;
        return Ok(Exit::Usage);
    };
    let answer = shell.session(false)?.bank()?.ask(&ListSystemsRequest::new(), &Control::default())?;
    if shell.options.json {
        shell.output.json(&json!(answer))?;
        return Ok(Exit::Answered);
    }
    let names: Vec<&str> = answer.systems.iter().map(|system| system.name.as_str()).collect();
    let project = folder.display();
    let Some(first) = names.first() else {
        let text = format!(
            "{project} defines no system. Its text can still be searched:\n\n  \
             steelbank find-references NAME\n\n`steelbank --help` lists all commands."
        );
        shell.output.text(&text)?;
        return Ok(Exit::Answered);
    };
    let mut text =
        format!("{project} defines {}: {}\n", counted(names.len(), "system", "systems"), names.join(", "));
    for (command, what) in [
        ("outline", "lists all definitions with their number of uses"),
        ("outline --unused", "lists definitions without uses"),
        ("code-find-references NAME", "lists every use of a symbol, by line and column"),
        ("impact NAME", "lists everything that a change of a symbol affects"),
        ("rename NAME NEW-NAME", "previews a rename; with --apply, verifies it and writes it"),
    ] {
        text.push_str(&format!("\n  steelbank --system {first} {command:<26}  {what}"));
    }
    text.push_str(
        "\n\nFor an agent: claude mcp add --scope user steelbank -- steelbank --system auto serve\n`steelbank --help` \
         lists all commands, `steelbank doctor` checks the installation.",
    );
    shell.output.text(&text)?;
    Ok(Exit::Answered)
}
