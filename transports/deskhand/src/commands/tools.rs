//! `deskhand tools`: the declarations, for people and for programs. The README's tables are made here.

use std::fmt::Write as _;
use std::process::ExitCode;

use deskhand_core::protocol::listing::describe;
use deskhand_core::protocol::revision::Revision;
use deskhand_core::tools::args::MAX_ID;
use deskhand_core::tools::declare::{Arg, Kind, Tool};
use deskhand_core::tools::toolset::Refusal;
use deskhand_core::toolsets::desktop::DESKTOP;
use serde_json::{Value, json};

use super::{Failed, print};
use crate::cli::Format;

pub fn run(format: Format) -> Result<ExitCode, Failed> {
    print(&match format {
        Format::Markdown => markdown(),
        Format::Json => format!("{:#}\n", as_json()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `tools/list` shows at the newest revision when every tool is listed, and the errors.
fn as_json() -> Value {
    let newest = Revision::MODERN[Revision::MODERN.len() - 1];
    let tools: Vec<Value> = DESKTOP.tools.iter().map(|tool| describe(tool, newest)).collect();
    let errors: Vec<Value> = DESKTOP
        .refusals
        .iter()
        .map(|e| json!({"name": e.name, "cause": e.cause, "remedy": e.remedy, "tools": e.tools}))
        .collect();
    json!({"protocolVersion": newest.name(), "tools": tools, "errors": errors})
}

fn markdown() -> String {
    let mut out = String::from("# Tools\n\n");
    out.push_str(&block("tools", &tool_table(DESKTOP.tools)));
    out.push_str("\n# Arguments\n");
    for tool in DESKTOP.tools {
        let _ = write!(out, "\n## {}\n\n{}\n\n{}", tool.name, tool.description, arguments(tool.args));
    }
    out.push_str("\n# Errors\n\n");
    out.push_str(&block("errors", &error_table(DESKTOP.refusals)));
    out
}

/// Between the markers by which the README's copy is found.
fn block(name: &str, content: &str) -> String {
    format!("<!-- {name} -->\n{content}<!-- /{name} -->\n")
}

fn tool_table(tools: &[&Tool]) -> String {
    let mut out = String::from("| tool | lease | what it does |\n|---|---|---|\n");
    for tool in tools {
        let _ = writeln!(out, "| `{}` | {} | {} |", tool.name, tool.lease.table_word(), cell(tool.summary));
    }
    out
}

fn error_table(refusals: &[Refusal]) -> String {
    let mut out = String::from("| error | why | what to do | from |\n|---|---|---|---|\n");
    for e in refusals {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", e.name, cell(e.cause), cell(e.remedy), cell(e.tools));
    }
    out
}

fn arguments(args: &[Arg]) -> String {
    if args.is_empty() {
        return "No arguments.\n".into();
    }
    let mut out = String::from("| argument | what it takes | default | |\n|---|---|---|---|\n");
    for arg in args {
        let default = if arg.required { "required".into() } else { default_of(&arg.kind).unwrap_or_default() };
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", arg.name, cell(&takes(&arg.kind)), cell(arg.about));
    }
    out
}

fn default_of(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Bool { default } => Some(default.to_string()),
        Kind::Integer { default, .. } => default.map(|n| n.to_string()),
        Kind::Text { default, .. } | Kind::Choice { default, .. } => default.map(|word| format!("`{word}`")),
        Kind::List { .. } | Kind::Object { .. } | Kind::AnyObject | Kind::ObjectOr { .. } => None,
    }
}

fn takes(kind: &Kind) -> String {
    match kind {
        Kind::Bool { .. } => "true or false".into(),
        Kind::Integer { min: 0, max, .. } if *max == MAX_ID => "a whole number".into(),
        Kind::Integer { min, max, .. } => format!("a whole number, {min} to {max}"),
        Kind::Text { min: 0, max, .. } => format!("text, up to {max} characters"),
        Kind::Text { min, max, .. } => format!("text, {min} to {max} characters"),
        Kind::Choice { of, .. } => words(of),
        Kind::List { of, min: 0, max } => format!("a list of up to {max}: {}", takes(of)),
        Kind::List { of, min, max } => format!("a list of {min} to {max}: {}", takes(of)),
        Kind::Object { fields } => format!("an object with {}", fields_of(fields)),
        Kind::AnyObject => "an object with one key".into(),
        Kind::ObjectOr { fields, words: w } => format!("an object with one of {}; or {}", fields_of(fields), words(w)),
    }
}

fn fields_of(fields: &[Arg]) -> String {
    let field = |f: &Arg| format!("`{}` ({}{})", f.name, takes(&f.kind), if f.required { "; required" } else { "" });
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

fn words(of: &[&str]) -> String {
    of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_and_error_is_there_once_in_both_forms() {
        let (markdown, json) = (markdown(), as_json());
        for tool in DESKTOP.tools {
            assert_eq!(markdown.matches(&format!("\n| `{}` | {} |", tool.name, tool.lease.table_word())).count(), 1, "{}", tool.name);
            assert_eq!(markdown.matches(&format!("\n## {}\n", tool.name)).count(), 1, "{}", tool.name);
        }
        assert_eq!(json["tools"].as_array().map(Vec::len), Some(DESKTOP.tools.len()));
        assert_eq!(json["errors"].as_array().map(Vec::len), Some(DESKTOP.refusals.len()));
        assert_eq!(json["tools"][0]["inputSchema"]["type"], "object");
    }

    #[test]
    fn every_row_has_its_tables_number_of_cells() {
        let mut columns = 0;
        for line in markdown().lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            if !line.starts_with('|') {
                columns = 0;
            } else if columns == 0 {
                columns = cells;
            } else {
                assert_eq!(cells, columns, "{line}");
            }
        }
    }

    #[test]
    fn limits_and_defaults_are_told() {
        let markdown = markdown();
        for expected in [
            "| `count` | a whole number, 1 to 3 | 1 |",
            "| `button` | `left`, `right`, `middle`, `back`, `forward` | `left` |",
            "| `guard` | true or false | true |",
            "| `window_id` | a whole number | required |",
        ] {
            assert!(markdown.contains(expected), "{expected}");
        }
    }
}
