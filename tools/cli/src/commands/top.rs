//! `hanare top`.

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::style::Stylize;
use ratatui::text::{Line, Text};
use ratatui::{DefaultTerminal, Frame};

use crate::top::look::{Look, Watch};
use crate::top::screen::{self, Key, Style, View};
use hanare_common::output::{self, outln};
use hanare_common::{failure, instances};

/// Watch what the processes on LWKs do. The key h explains the others.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hanare top
  hanare top blue --delay 0.5 --sort memory
  hanare top --once | head

On a narrow terminal columns are left out. --once without a terminal prints all of them.")]
pub struct Top {
    /// Instance [default: all]
    #[arg(value_parser = instances::name)]
    name: Option<String>,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 2.0, value_parser = seconds)]
    delay: f64,
    /// Column by which to sort
    #[arg(short, long, value_name = "KEY", value_enum, default_value_t = Key::Cpu)]
    sort: Key,
    /// A line for each thread
    #[arg(short = 'H', long)]
    threads: bool,
    /// A line for each CPU, too
    #[arg(short = '1', long)]
    cpus: bool,
    /// Print one look as text and end
    #[arg(short, long)]
    once: bool,
    /// Print one look as JSON and end
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds @ 0.1..=3600.0) => Ok(seconds),
        _ => Err("expected 0.1 to 3600 seconds".into()),
    }
}

impl Top {
    /// Shows it until it is told to end.
    pub fn execute(self) -> Result<()> {
        if !self.once && !self.json && !stdout().is_terminal() {
            return Err(failure::wrong_usage(
                "this is not a terminal (for text: hanare top --once; for programs: hanare top --json)".into(),
            ));
        }
        let mut watch = Watch::begin(self.name)?;
        let delay = Duration::from_secs_f64(self.delay);
        let view = View {
            key: self.sort,
            reverse: false,
            threads: self.threads,
            cpus: self.cpus,
            help: false,
            scroll: 0,
        };
        if self.once || self.json {
            std::thread::sleep(delay);
            let look = watch.look()?;
            return match self.json {
                true => outln!("{}", serde_json::to_string_pretty(&look)?),
                false => output::write(&screen::text(
                    &look,
                    &view,
                    output::columns(stdout()).unwrap_or(usize::MAX),
                )),
            };
        }
        let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
        let result = show(&mut terminal, &mut watch, delay, view);
        let _ = ratatui::try_restore();
        result
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    watch: &mut Watch,
    delay: Duration,
    mut view: View,
) -> Result<()> {
    let mut look = watch.look()?;
    let mut next = Instant::now() + delay;
    loop {
        view.scroll = view.scroll.min(screen::rows(&look, &view));
        terminal.draw(|frame| draw(frame, &look, &view)).context("cannot write to the terminal")?;
        if event::poll(next.saturating_duration_since(Instant::now()))?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match pressed(&mut view, key) {
                Wish::End => return Ok(()),
                Wish::Look => next = Instant::now(),
                Wish::Go => {}
            }
        }
        if Instant::now() >= next {
            look = watch.look()?;
            next = Instant::now() + delay;
        }
    }
}

/// A key's effect besides another view.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    End,
    Look,
    Go,
}

fn pressed(view: &mut View, key: KeyEvent) -> Wish {
    let sorted = |view: &mut View, key| {
        view.key = key;
        view.scroll = 0;
    };
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::End,
        // Out of the help first.
        KeyCode::Esc if view.help => view.help = false,
        KeyCode::Char('q') | KeyCode::Esc => return Wish::End,
        KeyCode::Char(' ') => return Wish::Look,
        KeyCode::Char('h' | '?') => view.help = !view.help,
        KeyCode::Char('P' | 'p') => sorted(view, Key::Cpu),
        KeyCode::Char('M' | 'm') => sorted(view, Key::Memory),
        KeyCode::Char('T' | 't') => sorted(view, Key::Time),
        KeyCode::Char('N' | 'n') => sorted(view, Key::Pid),
        KeyCode::Char('D' | 'd') => sorted(view, Key::Delegated),
        KeyCode::Char('R' | 'r') => view.reverse = !view.reverse,
        KeyCode::Char('H') => view.threads = !view.threads,
        KeyCode::Char('1') => view.cpus = !view.cpus,
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::Down => view.scroll += 1,
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(10),
        KeyCode::PageDown => view.scroll += 10,
        KeyCode::Home => view.scroll = 0,
        KeyCode::End => view.scroll = usize::MAX,
        _ => {}
    }
    Wish::Go
}

fn draw(frame: &mut Frame, look: &Look, view: &View) {
    let area = frame.area();
    let lines = screen::screen(look, view, area.width.into(), area.height.into());
    let styled = lines.into_iter().map(|(style, line)| match style {
        Style::Title => Line::from(line).bold(),
        Style::Heading => Line::from(line).reversed(),
        Style::Plain => Line::from(line),
        Style::Hint => Line::from(line).dim(),
    });
    frame.render_widget(Text::from_iter(styled), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_view() {
        let mut view = View {
            key: Key::Cpu,
            reverse: false,
            threads: false,
            cpus: false,
            help: false,
            scroll: 3,
        };
        let mut press =
            |code| (pressed(&mut view, KeyEvent::new(code, KeyModifiers::NONE)), view.clone());
        let (wish, seen) = press(KeyCode::Char('M'));
        assert!(wish == Wish::Go && seen.key == Key::Memory && seen.scroll == 0);
        assert!(press(KeyCode::Char('H')).1.threads && !press(KeyCode::Char('H')).1.threads);
        assert!(press(KeyCode::Char('h')).1.help);
        assert_eq!(press(KeyCode::Esc).0, Wish::Go);
        assert_eq!(press(KeyCode::Char(' ')).0, Wish::Look);
        assert_eq!(press(KeyCode::Char('q')).0, Wish::End);
    }
}
