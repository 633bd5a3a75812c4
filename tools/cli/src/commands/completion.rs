//! `hanare completion`: what shells need to complete command lines.

use anyhow::Result;
use clap::{Args, ValueEnum};
use clap_complete::Shell;

use hanare_common::output;

/// Print the completion of commands and options for a shell (make install does for all three).
#[derive(Args)]
#[command(after_help = "\
Examples:
  . <(hanare completion bash)       in this shell
  hanare completion fish > ~/.config/fish/completions/hanare.fish")]
pub struct Completion {
    /// Shell
    shell: Kind,
}

/// Shells that are served.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    /// Prints that of `hanare`, the whole command line.
    pub fn execute(self, hanare: clap::Command) -> Result<()> {
        output::write_bytes(&script(self.shell, hanare))
    }
}

fn script(kind: Kind, mut hanare: clap::Command) -> Vec<u8> {
    let shell = match kind {
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut hanare, "hanare", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_shell_is_told_the_commands_and_options() {
        for kind in Kind::value_variants() {
            let text = String::from_utf8(script(*kind, crate::Cli::command())).unwrap();
            for word in ["shutdown", "completion", "doctor", "force"] {
                assert!(text.contains(word), "{word}");
            }
        }
    }
}
