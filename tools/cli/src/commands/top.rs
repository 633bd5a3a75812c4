//! `hanare top`.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use hanare_sdk::{Device, Process};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use ratatui::{DefaultTerminal, Frame};
use serde::Serialize;

use super::ps;
use crate::size::Bytes;
use crate::{instances, table};

/// Watch what the processes of an instance do.
#[derive(Args)]
pub struct Top {
    /// Instance [default: the only one, or the one called 'default']
    name: Option<String>,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 2.0, value_parser = seconds)]
    delay: f64,
    /// Print one look as text and end
    #[arg(short, long)]
    once: bool,
    /// The same, machine-readable
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds @ 0.1..=3600.0) => Ok(seconds),
        _ => Err("expected 0.1 to 3600 seconds".into()),
    }
}

/// What was seen, with what changed since the last look.
#[derive(Serialize)]
struct Look {
    instance: String,
    cpus: String,
    memory_bytes: u64,
    processes: Vec<Busy>,
}

/// A process and how much it did, per second.
#[derive(Serialize)]
struct Busy {
    /// Of one CPU, percent: user mode and the LWK; waiting for Linux with the CPU kept.
    user_percent: f64,
    system_percent: f64,
    delegated_per_second: f64,
    process: Process,
}

type Counters = HashMap<u32, (u64, u64, u64)>;

/// Looks at an instance again and again.
struct Watch {
    device: Device,
    name: String,
    last: Counters,
    since: Instant,
}

impl Watch {
    fn begin(name: Option<&str>) -> Result<Self> {
        let device = Device::open()?;
        let name = instances::resolve(&device, name)?;
        let mut watch = Self { device, name, last: Counters::new(), since: Instant::now() };
        watch.look()?;
        Ok(watch)
    }

    fn look(&mut self) -> Result<Look> {
        let instance = self.device.instance(&self.name, false)?;
        let processes = self.device.processes(&self.name)?;
        let seconds = self.since.elapsed().as_secs_f64().max(0.001);
        self.since = Instant::now();
        let now = |p: &Process| (p.user_ns, p.system_ns, p.delegated_calls);
        let counters = processes.iter().map(|p| (p.space, now(p))).collect();
        let last = std::mem::replace(&mut self.last, counters);
        let mut processes: Vec<Busy> = processes.into_iter().map(|p| busy(p, &last, seconds)).collect();
        processes.sort_by(|a, b| (b.user_percent + b.system_percent).total_cmp(&(a.user_percent + a.system_percent)));
        Ok(Look {
            cpus: super::ls::cpus(&instance).to_string(),
            memory_bytes: instance.memory_bytes,
            instance: instance.name,
            processes,
        })
    }
}

fn busy(process: Process, last: &Counters, seconds: f64) -> Busy {
    // A process that was not there before has done it all since.
    let (user, system, calls) = last.get(&process.space).copied().unwrap_or_default();
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    Busy {
        user_percent: rate(process.user_ns, user) / 1e7,
        system_percent: rate(process.system_ns, system) / 1e7,
        delegated_per_second: rate(process.delegated_calls, calls),
        process,
    }
}

const HEADER: [&str; 9] = ["PID", "THREADS", "CPU", "S", "%USER", "%SYSTEM", "DELEGATED/s", "MEMORY", "COMMAND"];

fn cells(busy: &Busy) -> Vec<String> {
    let p = &busy.process;
    vec![
        ps::number(p.pid),
        p.threads.len().to_string(),
        ps::cpus(p),
        ps::state(p.running()).into(),
        format!("{:.1}", busy.user_percent),
        format!("{:.1}", busy.system_percent),
        format!("{:.0}", busy.delegated_per_second),
        Bytes(p.resident_bytes).to_string(),
        ps::command(p),
    ]
}

impl Look {
    fn title(&self) -> String {
        let used: u64 = self.processes.iter().map(|b| b.process.resident_bytes).sum();
        let percent: f64 = self.processes.iter().map(|b| b.user_percent + b.system_percent).sum();
        format!(
            "{}: CPUs {}, {percent:.0} % of one busy; {} of {} used by {} programs",
            self.instance,
            self.cpus,
            Bytes(used),
            Bytes(self.memory_bytes),
            self.processes.len(),
        )
    }
}

impl Top {
    /// Shows it until it is told to end.
    pub fn execute(self) -> Result<()> {
        let mut watch = Watch::begin(self.name.as_deref())?;
        let delay = Duration::from_secs_f64(self.delay);
        if self.once || self.json {
            std::thread::sleep(delay);
            let look = watch.look()?;
            return print(&look, self.json);
        }
        if !std::io::stdout().is_terminal() {
            bail!("this is not a terminal (for text: hanare top --once; for programs: hanare top --json)");
        }
        let mut terminal = ratatui::init();
        let result = show(&mut terminal, &mut watch, delay);
        ratatui::restore();
        result
    }
}

fn print(look: &Look, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(look)?);
        return Ok(());
    }
    println!("{}", look.title());
    if look.processes.is_empty() {
        println!("no program runs on '{}' (start one: hanare run PROGRAM)", look.instance);
    } else {
        table::print(&HEADER, &look.processes.iter().map(cells).collect::<Vec<_>>());
    }
    Ok(())
}

fn show(terminal: &mut DefaultTerminal, watch: &mut Watch, delay: Duration) -> Result<()> {
    let mut look = watch.look()?;
    let mut next = Instant::now() + delay;
    loop {
        terminal.draw(|frame| draw(frame, &look))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()? {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if control => return Ok(()),
                    KeyCode::Char(' ') => next = Instant::now(),
                    _ => {}
                }
            }
        }
        if Instant::now() >= next {
            look = watch.look()?;
            next = Instant::now() + delay;
        }
    }
}

fn draw(frame: &mut Frame, look: &Look) {
    let [title, body, help] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Line::from(look.title()).bold(), title);
    frame.render_widget(Line::from("q: end   space: look now").dim(), help);
    if look.processes.is_empty() {
        frame.render_widget(Line::from("no program runs here (start one: hanare run PROGRAM)"), body);
        return;
    }
    let widths = [8, 8, 10, 2, 7, 8, 12, 10].map(Constraint::Length).into_iter().chain([Constraint::Min(10)]);
    let rows = look.processes.iter().map(|busy| Row::new(cells(busy)));
    frame.render_widget(Table::new(rows, widths).header(Row::new(HEADER).bold()), body);
}
