//! A report as Markdown (of GitHub), with pictures in files beside it.

use super::parts::{Block, Cell, Column, Document, Mark, Table};

/// The text; `picture` says which file a picture of that name is in.
pub fn render(document: &Document, picture: &dyn Fn(&str) -> String) -> String {
    let mut text = format!("# {}\n", escape(&document.title));
    for block in &document.blocks {
        text.push('\n');
        match block {
            Block::Heading(heading) => text += &format!("## {}\n", escape(heading)),
            Block::Text(said) => text += &format!("{}\n", escape(said)),
            Block::Warning(said) => text += &format!("**{}**\n", escape(said)),
            Block::Table(table) => text += &render_table(table),
            Block::Picture(found) => {
                let (caption, file) = (escape(&found.caption), picture(&found.name));
                text += &format!("![{caption}]({})\n\n{caption}\n", escape_address(&file));
            }
        }
    }
    text
}

fn render_table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.header.iter().map(|column| escape(column.name())).collect());
    let rule = table.header.iter().map(|column| match column {
        Column::Text(_) => "---",
        Column::Number(_) => "---:",
    });
    text += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in &table.rows {
        let cell = |Cell { text, mark }: &Cell| match (mark, escape(text)) {
            (Mark::Bad, text) if !text.is_empty() => format!("**{text}**"),
            (_, text) => text,
        };
        text += &line(row.iter().map(cell).collect());
    }
    text
}

/// A text that is only text, on one line, within a cell of a table as well.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied().unwrap_or(' ');
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            // Within a word it means nothing.
            '_' if before.is_alphanumeric() && after.is_alphanumeric() => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
        before = c;
    }
    escaped
}

/// A file's name as the target of a link.
fn escape_address(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    name.bytes()
        .map(
            |byte| {
                if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}
