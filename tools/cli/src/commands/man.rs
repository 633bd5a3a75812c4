//! `hanare man`: the manual pages, out of the same text as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, Args};

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
    let mut hanare = hanare.disable_help_subcommand(true);
    clap_mangen::generate_to(hanare.clone(), folder)?;
    hanare.build();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("hanare") && name.ends_with(".1") {
            let page = unfilled(&fs::read_to_string(&path)?);
            let command = name.strip_prefix("hanare-").and_then(|name| name.strip_suffix(".1"));
            let command = command.and_then(|command| hanare.find_subcommand(command));
            fs::write(
                &path,
                command.map_or(page.clone(), |command| with_synopsis(&page, command)),
            )?;
        }
    }
    Ok(())
}

/// Writes the synopsis anew: clap_mangen leaves out the values of options, and what may be
/// repeated.
fn with_synopsis(page: &str, command: &clap::Command) -> String {
    const BEGIN: &str = ".SH SYNOPSIS\n";
    let Some((before, rest)) = page.split_once(BEGIN) else { return page.into() };
    let after = rest.split_once('\n').map_or("", |(_, after)| after);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .partition(|argument| argument.is_positional());
    let all = options.into_iter().chain(positional).map(in_synopsis);
    let line: Vec<String> = std::iter::once(format!("\\fB{name}\\fR")).chain(all).collect();
    format!("{before}{BEGIN}{}\n{after}", line.join(" "))
}

/// An option with its values, or an argument; in brackets what may be left out, before dots what
/// may be repeated.
fn in_synopsis(argument: &Arg) -> String {
    let dashes = |name: String| format!("\\fB{}\\fR", name.replace('-', "\\-"));
    let short = argument.get_short().map(|short| dashes(format!("-{short}")));
    let long = argument.get_long().map(|long| dashes(format!("--{long}")));
    let mut text = [short, long].into_iter().flatten().collect::<Vec<_>>().join("|");
    let takes = argument.get_action().takes_values();
    if takes {
        let names = argument.get_value_names().unwrap_or_default().iter();
        let names: Vec<String> = names.map(|name| format!("\\fI{name}\\fR")).collect();
        let names = names.join(" ");
        text += &match (text.is_empty(), argument.is_require_equals_set()) {
            (true, _) => names,
            (false, true) => format!("[={names}]"),
            (false, false) => format!(" {names}"),
        };
    }
    if !argument.is_required_set() {
        text = format!("[{text}]");
    }
    // Values of one option that are many, or separated by commas, say so themselves.
    let counts = argument.get_num_args().unwrap_or_default().max_values() > 1;
    let is_repeated = if argument.is_positional() {
        counts
    } else {
        let appends = matches!(argument.get_action(), ArgAction::Append);
        appends && !counts && argument.get_value_delimiter().is_none()
    };
    if is_repeated {
        text += "...";
    }
    text
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
    use super::{unfilled, with_synopsis};
    use clap::CommandFactory;

    #[test]
    fn a_synopsis_has_values_and_dots() {
        let mut hanare = crate::Cli::command();
        hanare.build();
        let synopsis = |name: &str| {
            let page = ".SH NAME\nx\n.SH SYNOPSIS\nx\n.SH DESCRIPTION\nx\n";
            let text = with_synopsis(page, hanare.find_subcommand(name).unwrap());
            assert!(text.starts_with(".SH NAME\nx\n.SH SYNOPSIS\n"), "{text}");
            assert!(text.ends_with("\n.SH DESCRIPTION\nx\n"), "{text}");
            text.lines().nth(3).unwrap().replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
        };
        let run = synopsis("run");
        assert!(run.starts_with("hanare run [\\-\\-on NAME] [\\-\\-cpus LIST]"), "{run}");
        assert!(run.contains("[\\-\\-stats]") && run.ends_with(" PROGRAM..."), "{run}");
        assert!(run.contains("[\\-\\-async[=KINDS]]"), "{run}");
        let bench = synopsis("bench");
        assert!(bench.contains("[\\-\\-compare OLD.json NEW.json] "), "{bench}");
        assert!(bench.contains("[\\-\\-report FILE]...") && bench.ends_with(" [ID]..."), "{bench}");
        let boot = synopsis("boot");
        assert!(boot.contains(" \\-\\-cpus LIST ") && boot.ends_with(" [NAME]"), "{boot}");
    }

    #[test]
    fn examples_keep_their_lines() {
        let page = ".SH NAME\na\n.SH EXTRA\nExamples:\n x\n\nText.\n.SH VERSION\n1\n";
        let expected = ".SH NAME\na\n.SH NOTES\n.nf\nExamples:\n x\n\n.fi\nText.\n.SH VERSION\n1\n";
        assert_eq!(unfilled(page), expected);
        assert_eq!(unfilled("a"), "a");
    }
}
