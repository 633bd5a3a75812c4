//! `hanare man`: the manual pages, out of the same text as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

/// Write the manual pages to a folder (make install does).
#[derive(Args)]
pub struct Man {
    /// Folder, e.g. /usr/local/share/man/man1
    folder: PathBuf,
}

impl Man {
    /// Writes hanare.1 and one page for each command of `hanare`, the whole command line.
    pub fn execute(self, hanare: clap::Command) -> Result<()> {
        write(&self.folder, hanare)
            .with_context(|| format!("cannot write to {}", self.folder.display()))
    }
}

fn write(folder: &Path, hanare: clap::Command) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(hanare.disable_help_subcommand(true), folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("hanare") && name.ends_with(".1") {
            let page = fs::read_to_string(&path)?;
            fs::write(&path, unfilled(&page))?;
        }
    }
    Ok(())
}

/// Fills the paragraphs behind the options in `--help`; examples keep their lines.
fn unfilled(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else {
        return page.into();
    };
    let (extra, after) = extra.split_at(extra.find("\n.SH ").map_or(extra.len(), |end| end + 1));
    let mut notes = String::new();
    let mut kept = false;
    for line in extra.lines() {
        // An example is indented, and so is what stands right above it.
        let keep = line.starts_with(' ') || line.ends_with(':');
        if keep != kept && !line.is_empty() {
            notes += if keep { ".nf\n" } else { ".fi\n" };
            kept = keep;
        }
        notes += line;
        notes.push('\n');
    }
    notes += if kept { ".fi\n" } else { "" };
    format!("{before}.SH NOTES\n{notes}{after}")
}

#[cfg(test)]
mod tests {
    use super::unfilled;

    #[test]
    fn examples_keep_their_lines() {
        let page = ".SH NAME\na\n.SH EXTRA\nExamples:\n x\n\nText.\n.SH VERSION\n1\n";
        let expected = ".SH NAME\na\n.SH NOTES\n.nf\nExamples:\n x\n\n.fi\nText.\n.SH VERSION\n1\n";
        assert_eq!(unfilled(page), expected);
        assert_eq!(unfilled("a"), "a");
    }
}
