//! The `hanare` command.
//!
//! One file per command in `commands/`; `hanare bench` and `hanare noise` are in the crate
//! `hanare-bench`, and what both crates need in `hanare-common`. Besides:
//!
//! * `device` is the instance that a command means, `dispatch` how its calls are executed
//! * `program` looks programs up, `preload` what is loaded into them
//! * `stuck` asks about programs whose LWK is silent
#![deny(unsafe_code)]
#![cfg_attr(not(test), no_main)]

mod commands;
mod device;
mod dispatch;
mod gdb;
mod preload;
mod program;
mod stuck;
mod tasks;
mod top;
mod trace;

use std::ffi::{c_char, c_int};
use std::io::IsTerminal;

use clap::{CommandFactory, Parser};
use hanare_common::{failure, output};

use commands::Command;

/// Run unmodified Linux programs on a lightweight kernel beside Linux.
#[derive(Parser)]
#[command(name = "hanare", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  hanare doctor                         can this machine run it?
  hanare boot --cpus 2-3 --mem 512M     CPUs 2 and 3 leave Linux and run the LWK
  hanare run python3 script.py          run a program there
  hanare ls                             what is running
  hanare shutdown                       give CPUs and memory back

Exit status: 0 success; 1 failure; 2 wrong usage. 'hanare run' exits as the program does, or with \
125 if Hanare failed, 126 if the program cannot be run, 127 if there is no such program.";

/// The C entry point instead of Rust's: the latter would set SIGPIPE to be
/// ignored, and `hanare run` has to hand on the dispositions it was started with.
#[allow(unsafe_code)]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    let plain = commands::run::Run::plain(std::env::args_os()).map(Command::Run);
    let cli = match plain.map_or_else(Cli::try_parse, |command| Ok(Cli { command })) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    // A program gets what the caller has closed as closed.
    if !matches!(cli.command, Command::Run(_) | Command::Native(_)) {
        output::occupy_standard_descriptors();
    }
    let runs = |command: &Command| {
        use Command::{Gdb, Native, Run, Trace};
        matches!(command, Run(_) | Native(_) | Trace(_) | Gdb(_))
    };
    let failed = if runs(&cli.command) { failure::HANARE } else { failure::FAILED };
    match cli.command.execute(Cli::command) {
        Ok(status) => status,
        Err(error) => failure::report(&error, failed),
    }
}

/// Shows help, or says what is wrong with the command line.
fn usage(error: &clap::Error) -> c_int {
    if error.use_stderr() {
        let command = std::env::args_os().nth(1);
        let program = command.is_some_and(|command| {
            ["run", "native", "trace", "gdb"].iter().any(|&name| command == name)
        });
        output::complain(format_args!("{}", complaint(&error.render().to_string())));
        return if program { failure::HANARE } else { failure::USAGE };
    }
    let text = error.render();
    let text = if is_colourful() { text.ansi().to_string() } else { text.to_string() };
    output::write(&text).map_or_else(|error| failure::report(&error, failure::FAILED), |()| 0)
}

/// The message of clap, with the prefix of all other errors.
fn complaint(text: &str) -> String {
    text.strip_prefix("error: ").map_or_else(|| text.to_owned(), |text| format!("hanare: {text}"))
}

/// Whether help may have bold letters.
fn is_colourful() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    std::io::stdout().is_terminal()
        && unset("NO_COLOR")
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(line: &str) -> commands::run::Run {
        match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Run(run)) => run,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn kinds_of_posted_calls_need_an_equals_sign() {
        use preload::Posted;
        assert_eq!(run_of("hanare run --async=write true").posted, Some(vec![Posted::Write]));
        let run = run_of("hanare run --async write");
        assert_eq!((run.posted, run.command), (Some(vec![Posted::All]), vec!["write".into()]));
        let both = Some(vec![Posted::All, Posted::Socket]);
        assert_eq!(run_of("hanare run --async=all,socket true").posted, both);
        assert_eq!(run_of("hanare run --stats true").posted, None);
    }

    #[test]
    fn a_wrong_command_line_is_reported_as_other_errors_are() {
        let error = Cli::try_parse_from(["hanare", "nonsense"]).err().unwrap().render().to_string();
        assert!(complaint(&error).starts_with("hanare: unrecognized subcommand"), "{error}");
    }

    /// The longest line of examples; paragraphs are one line each, which clap wraps.
    #[test]
    fn help_is_wrapped_once() {
        const EXAMPLE_MAX: usize = 80;
        let all = Cli::command();
        for command in std::iter::once(&all).chain(all.get_subcommands()) {
            let name = command.get_name();
            let Some(text) = command.get_after_help().map(ToString::to_string) else { continue };
            for (line, next) in text.lines().zip(text.lines().skip(1).chain([""])) {
                let example = line.starts_with(' ') || line.ends_with(':');
                assert!(!example || line.len() <= EXAMPLE_MAX, "{name}: {line}");
                assert!(
                    example || line.is_empty() || next.is_empty(),
                    "{name}: a line within a paragraph ends at: {line}"
                );
            }
        }
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        let run = run_of("hanare run --on blue ls -l --stats");
        assert_eq!(run.on.as_deref(), Some("blue"));
        assert!(!run.stats);
        assert_eq!(run.command, ["ls", "-l", "--stats"]);
        assert_eq!(run_of("hanare run --stats -- -x -- y").command, ["-x", "--", "y"]);
    }

    #[test]
    fn a_plain_run_is_what_the_parser_makes_of_it() {
        let plain = |line: &str| commands::run::Run::plain(line.split(' ').map(Into::into));
        let plain_lines = "hanare run ls|hanare run /bin/ls -l --stats|hanare run help|hanare run -- ls -l|hanare run -- -x -- y";
        for line in plain_lines.split('|') {
            let (plain, parsed) = (plain(line).unwrap(), run_of(line));
            assert_eq!(plain.command, parsed.command, "{line}");
            assert!(parsed.on.is_none() && parsed.cpus.is_none() && !parsed.stats);
        }
        let others = "hanare|hanare run|hanare run --help|hanare run --|hanare run --stats ls|hanare run ls -- x|hanare ls|hanare help run|hanare runs ls";
        for line in others.split('|') {
            assert!(plain(line).is_none(), "{line}");
        }
    }
}
