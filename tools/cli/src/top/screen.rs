//! Lays out what `hanare top` shows, for terminals of all sizes.

use std::cmp::Ordering;

use clap::ValueEnum;
use hanare_sdk::State;

use super::columns::{Column, ROOMY, fit};
use super::look::{Busy, Look, Machine, Rates};
use hanare_common::cpu_list::CpuList;
use hanare_common::output::{count, cut};
use hanare_common::processes;
use hanare_common::size::Bytes;

/// The sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Key {
    /// Use of CPUs since the last look
    Cpu,
    /// Memory
    Memory,
    /// CPU time since the start
    Time,
    /// Process id
    Pid,
    /// Delegated calls per second
    Delegated,
}

/// How the processes are shown: the user's choices.
#[derive(Clone, Debug)]
pub struct View {
    /// The sort key.
    pub key: Key,
    /// Sort in the reverse order.
    pub reverse: bool,
    /// A line for each thread.
    pub threads: bool,
    /// A line for each CPU.
    pub cpus: bool,
    /// Show the help page instead of the table.
    pub help: bool,
    /// Rows above the screen.
    pub scroll: usize,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line about an instance.
    Title,
    /// The heading of the table.
    Heading,
    /// Anything else.
    Plain,
    /// The help page: keys.
    Hint,
}

/// A line.
pub type Line = (Style, String);

/// The key to press, and what it does.
const HELP: [(&str, &str); 14] = [
    ("q", "end (Esc and Ctrl-C, too)"),
    ("h ?", "this help, and back"),
    ("P", "sort by use of CPUs"),
    ("M", "sort by memory"),
    ("T", "sort by CPU time"),
    ("N", "sort by process id"),
    ("D", "sort by delegated calls"),
    ("R", "sort the other way round"),
    ("H", "a line for each thread, or process"),
    ("1", "a line for each CPU, or none"),
    ("space", "look now"),
    ("up down", "scroll (PgUp, PgDn, Home, End)"),
    ("%USER", "in the program and the LWK"),
    ("%SYSTEM", "waiting for Linux, CPU kept"),
];

/// The lines of a screen of this size.
pub fn screen(look: &Look, view: &View, width: usize, height: usize) -> Vec<Line> {
    if view.help {
        let mut lines = help(width);
        lines.truncate(height);
        return lines;
    }
    let (mut lines, heading, rows) = parts(look, view, width, height);
    // Room for the heading, a row and the keys comes before instances and CPUs.
    lines.truncate(height.saturating_sub(3).max(1));
    let room = height.saturating_sub(lines.len() + 2);
    let first = view.scroll.min(rows.len().saturating_sub(room));
    let all = rows.len();
    lines.extend(heading);
    lines.extend(rows.into_iter().skip(first).take(room).map(|row| (Style::Plain, row)));
    if height > lines.len() {
        lines.resize(height - 1, (Style::Plain, String::new()));
        let part = (all > room).then(|| format!("{}-{} of {all}", first + 1, first + room));
        let hints =
            ["h help", "q end", "H threads", "1 CPUs", "P M T N D sort", "R reverse", "space now"];
        let hints: Vec<String> = part.into_iter().chain(hints.map(String::from)).collect();
        lines.push((Style::Hint, join(&hints, width).into_iter().next().unwrap_or_default()));
    }
    lines.truncate(height);
    lines
}

/// The screen as plain text, with all rows.
pub fn text(look: &Look, view: &View, width: usize) -> String {
    let (lines, heading, rows) = parts(look, view, width, usize::MAX);
    let lines = lines.into_iter().chain(heading).map(|(_, line)| line).chain(rows);
    lines.flat_map(|line| [line, "\n".into()]).collect()
}

/// Most rows to scroll over.
pub fn rows(look: &Look, view: &View) -> usize {
    if view.threads {
        look.processes.iter().map(|busy| busy.process.threads.len()).sum()
    } else {
        look.processes.len()
    }
}

/// The lines above the table, its heading, its rows.
fn parts(
    look: &Look,
    view: &View,
    width: usize,
    height: usize,
) -> (Vec<Line>, Option<Line>, Vec<String>) {
    let mut above: Vec<Line> = Vec::new();
    let instances_max = (height / 4).max(1);
    for machine in look.instances.iter().take(instances_max) {
        above.extend(
            join(&title(machine, look, width), width).into_iter().map(|line| (Style::Title, line)),
        );
    }
    if look.instances.len() > instances_max {
        above.push((
            Style::Title,
            cut(
                &count(
                    (look.instances.len() - instances_max) as u64,
                    "more instance",
                    "more instances",
                ),
                width,
            ),
        ));
    }
    if view.cpus {
        above.extend(cpus(look, width, height).into_iter().map(|line| (Style::Plain, line)));
    }
    let says = match (look.instances.is_empty(), look.processes.is_empty()) {
        (true, _) => "no instance is booted (next: hanare boot --cpus LIST --mem SIZE)",
        (_, true) => "no program runs (start one: hanare run PROGRAM)",
        _ => {
            let (heading, rows) = table(look, view, width);
            return (above, Some((Style::Heading, heading)), rows);
        }
    };
    above.extend(words(says, width).into_iter().map(|line| (Style::Plain, line)));
    (above, None, Vec::new())
}

/// The lines about an instance.
fn title(machine: &Machine, look: &Look, width: usize) -> Vec<String> {
    let programs: Vec<&Busy> =
        look.processes.iter().filter(|busy| busy.instance == machine.name).collect();
    let used: u64 = programs.iter().map(|busy| busy.process.resident_bytes).sum();
    let busy: f64 = machine.cpus.iter().map(|cpu| cpu.busy_percent).sum::<f64>()
        / machine.cpus.len().max(1) as f64;
    let list: CpuList = machine.cpus.iter().map(|cpu| cpu.cpu).collect();
    let cpus = format!("CPU{} {list}", if list.numbers().len() == 1 { "" } else { "s" });
    let cpus =
        if cpus.len() <= width { cpus } else { count(list.numbers().len() as u64, "CPU", "CPUs") };
    let state = (machine.state != State::Running).then(|| machine.state.to_string());
    let begin = [cut(&machine.name, width)].into_iter().chain(state);
    let rest = [
        cpus,
        format!("{} % busy", number(busy, 0)),
        format!("{} of {}", Bytes(used), Bytes(machine.memory_bytes)),
        count(programs.len() as u64, "process", "processes"),
    ];
    begin.chain(rest).collect()
}

/// A line for each CPU, several in one if they would take more than half of the screen.
fn cpus(look: &Look, width: usize, height: usize) -> Vec<String> {
    let several = look.instances.len() > 1;
    let number_width = look
        .instances
        .iter()
        .flat_map(|machine| &machine.cpus)
        .map(|cpu| cpu.cpu.to_string().len())
        .max()
        .unwrap_or(1);
    let mut short = Vec::new();
    let mut long = Vec::new();
    for machine in &look.instances {
        for cpu in &machine.cpus {
            let begin =
                format!("CPU {:number_width$} {:>3} %", cpu.cpu, number(cpu.busy_percent, 0));
            let name = if several { format!(" {}", machine.name) } else { String::new() };
            let room =
                width.saturating_sub(begin.len() + " [] busy".len() + name.chars().count()).min(50);
            let bar = if room >= 5 {
                let full = (cpu.busy_percent * room as f64 / 100.0).round() as usize;
                format!(" [{}{}]", "|".repeat(full.min(room)), " ".repeat(room - full.min(room)))
            } else {
                String::new()
            };
            let whole =
                [format!("{begin} busy{bar}{name}"), format!("{begin} busy"), begin.clone()];
            long.push(
                whole.into_iter().find(|line| line.chars().count() <= width).unwrap_or_default(),
            );
            short.push(begin);
        }
    }
    if long.len() > height / 2 { join(&short, width) } else { long }
}

/// Columns of processes, and of threads.
const PROCESS: [Column; 12] = [
    Column { title: "PID", rank: 0, width: 5, right: true },
    Column { title: "INSTANCE", rank: 5, width: 0, right: false },
    Column { title: "THREADS", rank: 7, width: 0, right: true },
    Column { title: "CPU", rank: 8, width: 5, right: false },
    Column { title: "S", rank: 3, width: 0, right: false },
    Column { title: "%CPU", rank: 1, width: 5, right: true },
    Column { title: "%USER", rank: 9, width: 6, right: true },
    Column { title: "%SYSTEM", rank: 10, width: 0, right: true },
    Column { title: "TIME", rank: 6, width: 8, right: true },
    Column { title: "DELEGATED/s", rank: 4, width: 0, right: true },
    Column { title: "MEMORY", rank: 2, width: 9, right: true },
    Column { title: "COMMAND", rank: 0, width: 0, right: false },
];
const THREAD: [Column; 11] = [
    Column { title: "TID", rank: 0, width: 5, right: true },
    Column { title: "PID", rank: 2, width: 5, right: true },
    Column { title: "INSTANCE", rank: 6, width: 0, right: false },
    Column { title: "CPU", rank: 4, width: 0, right: true },
    Column { title: "S", rank: 3, width: 0, right: false },
    Column { title: "%CPU", rank: 1, width: 5, right: true },
    Column { title: "%USER", rank: 8, width: 6, right: true },
    Column { title: "%SYSTEM", rank: 9, width: 0, right: true },
    Column { title: "TIME", rank: 7, width: 8, right: true },
    Column { title: "DELEGATED/s", rank: 5, width: 0, right: true },
    Column { title: "NAME", rank: 0, width: 0, right: false },
];

/// The sort value of a row, and its cells.
struct Row {
    pid: u32,
    tid: u32,
    rates: Rates,
    time_ns: u64,
    memory_bytes: u64,
    cells: Vec<String>,
}

fn table(look: &Look, view: &View, width: usize) -> (String, Vec<String>) {
    let mut rows: Vec<Row> = if view.threads {
        look.processes.iter().flat_map(thread_rows).collect()
    } else {
        look.processes.iter().map(|busy| process_row(busy, width >= ROOMY)).collect()
    };
    rows.sort_by(|a, b| {
        let order = compare(a, b, view.key);
        let order = if view.reverse { order.reverse() } else { order };
        order.then(a.pid.cmp(&b.pid)).then(a.tid.cmp(&b.tid))
    });
    let mut columns: Vec<Column> = if view.threads { THREAD.into() } else { PROCESS.into() };
    let mut cells: Vec<Vec<String>> = rows.into_iter().map(|row| row.cells).collect();
    if look.instances.len() < 2
        && let Some(place) = columns.iter().position(|column| column.title == "INSTANCE")
    {
        columns.remove(place);
        cells.iter_mut().for_each(|row| drop(row.remove(place)));
    }
    fit(&columns, &cells, width)
}

/// Sorts the largest value first; of ids the lowest.
fn compare(a: &Row, b: &Row, key: Key) -> Ordering {
    match key {
        Key::Cpu => b.rates.cpu_percent().total_cmp(&a.rates.cpu_percent()),
        Key::Memory => b.memory_bytes.cmp(&a.memory_bytes),
        Key::Time => b.time_ns.cmp(&a.time_ns),
        Key::Pid => a.pid.cmp(&b.pid),
        Key::Delegated => b.rates.delegated_per_second.total_cmp(&a.rates.delegated_per_second),
    }
}

/// With the whole command where there is room, else the name.
fn process_row(busy: &Busy, roomy: bool) -> Row {
    let p = &busy.process;
    let cpus: CpuList = p.threads.iter().filter_map(|thread| thread.cpu).collect();
    let cpus = if cpus.numbers().is_empty() { "?".into() } else { cpus.to_string() };
    let [cpu, user, system, calls] = rates(&busy.rates);
    Row {
        pid: p.pid.unwrap_or(0),
        tid: 0,
        rates: busy.rates,
        time_ns: p.user_ns + p.system_ns,
        memory_bytes: p.resident_bytes,
        cells: vec![
            processes::number(p.pid),
            busy.instance.clone(),
            p.threads.len().to_string(),
            cpus,
            processes::state(p.running()).into(),
            cpu,
            user,
            system,
            processes::time(p.user_ns + p.system_ns),
            calls,
            Bytes(p.resident_bytes).to_string(),
            if roomy || p.name.is_empty() { processes::command(p) } else { p.name.clone() },
        ],
    }
}

fn thread_rows(busy: &Busy) -> Vec<Row> {
    let p = &busy.process;
    let row = |(thread, of_thread): (&hanare_sdk::Thread, &Rates)| {
        let [cpu, user, system, calls] = rates(of_thread);
        let time_ns = thread.user_ns + thread.system_ns;
        Row {
            pid: p.pid.unwrap_or(0),
            tid: thread.tid,
            rates: *of_thread,
            time_ns,
            memory_bytes: p.resident_bytes,
            cells: vec![
                thread.tid.to_string(),
                processes::number(p.pid),
                busy.instance.clone(),
                processes::number(thread.cpu),
                processes::state(thread.running).into(),
                cpu,
                user,
                system,
                processes::time(time_ns),
                calls,
                thread.name.clone(),
            ],
        }
    };
    p.threads.iter().zip(&busy.thread_rates).map(row).collect()
}

fn rates(rates: &Rates) -> [String; 4] {
    let Rates { user_percent, system_percent, delegated_per_second } = *rates;
    [
        number(rates.cpu_percent(), 1),
        number(user_percent, 1),
        number(system_percent, 1),
        number(delegated_per_second, 0),
    ]
}

/// A number as text, never `-0`, which the sum of no numbers is.
fn number(value: f64, digits: usize) -> String {
    let value = if value > 0.0 { value } else { 0.0 };
    format!("{value:.digits$}")
}

/// Pieces that stay whole, two blanks between them, in as many lines as they need. A piece that is
/// wider than a line is left out.
fn join(pieces: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.chars().count() <= width) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + piece.chars().count() <= width => {
                *line += &format!("  {piece}")
            }
            _ => lines.push(piece.clone()),
        }
    }
    lines
}

/// A text in lines; a word that is wider than a line is cut.
fn words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += &format!(" {word}")
            }
            _ => lines.push(cut(word, width)),
        }
    }
    lines
}

fn help(width: usize) -> Vec<Line> {
    let keys = HELP.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 2;
    let mut lines = Vec::new();
    for (key, what) in HELP {
        if width < keys + 10 {
            lines.extend(words(&format!("{key}: {what}"), width));
            continue;
        }
        for (index, part) in words(what, width - keys).into_iter().enumerate() {
            lines.push(format!("{:keys$}{part}", if index == 0 { key } else { "" }));
        }
    }
    lines.into_iter().map(|line| (Style::Plain, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::look::BusyCpu;
    use super::*;
    use hanare_sdk::{Process, Thread};

    fn thread(tid: u32) -> Thread {
        Thread {
            tid,
            name: format!("worker-{tid}"),
            running: true,
            waits_until: None,
            cpu: Some(2),
            user_ns: 12_340_000_000,
            system_ns: 0,
            delegated_calls: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            asks: None,
        }
    }

    fn busy(pid: u32, percent: f64, memory: u64) -> Busy {
        let process = Process {
            pid: Some(pid),
            space: pid,
            name: "perl".into(),
            command: format!("/usr/bin/perl -e 'program {pid} with a long command line'"),
            user_ns: u64::from(pid) * 1_000_000_000,
            system_ns: 0,
            delegated_calls: 0,
            mapped_bytes: 0,
            resident_bytes: memory,
            peak_bytes: 0,
            threads: vec![thread(pid), thread(pid + 1)],
        };
        let rates =
            Rates { user_percent: percent, system_percent: 0.0, delegated_per_second: 123_456.0 };
        Busy {
            rates,
            thread_rates: vec![rates, Rates::default()],
            instance: "default".into(),
            process,
        }
    }

    fn look(processes: Vec<Busy>) -> Look {
        let cpus = (2..4).map(|cpu| BusyCpu { cpu, busy_percent: 37.5 }).collect();
        let machine = Machine {
            name: "default".into(),
            state: State::Running,
            memory_bytes: 256 << 20,
            cpus,
        };
        Look { instances: vec![machine], processes }
    }

    fn view() -> View {
        View { key: Key::Cpu, reverse: false, threads: false, cpus: false, help: false, scroll: 0 }
    }

    fn lines(look: &Look, view: &View, width: usize, height: usize) -> Vec<String> {
        let lines = screen(look, view, width, height);
        assert!(lines.len() <= height, "{width} x {height}: {lines:#?}");
        for (_, line) in &lines {
            assert!(line.chars().count() <= width, "{width} x {height}: {line:?}");
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Numbers on a screen that are not in the look.
    #[test]
    fn numbers_are_whole_at_every_width() {
        let look = look(vec![busy(1_048_576, 199.9, 123 << 20), busy(10_421, 0.0, 1023 << 10)]);
        let known = [
            "1048576", "1048577", "10421", "10422", "199.9", "123", "1023", "0.0", "123456", "2",
            "2-3", "37", "38", "256", "0", "12.34", "17476:16", "173:41", "3",
        ];
        for width in 1..200 {
            for threads in [false, true] {
                for cpus in [false, true] {
                    for height in [1, 2, 3, 5, 24] {
                        let view = View { threads, cpus, ..view() };
                        for line in lines(&look, &view, width, height) {
                            let hint = line.starts_with("h help")
                                || line.contains(" of 2")
                                || line.contains(" of 4")
                                || line.starts_with("q end")
                                || line.starts_with("1 CPUs");
                            let numbers = line
                                .split([' ', '[', ']', '|'])
                                .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
                            for number in numbers.filter(|word| !hint && !word.ends_with('…')) {
                                assert!(
                                    known.contains(&number),
                                    "{width} x {height}: {number} in {line:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn useful_at_twenty_columns() {
        let look = look(vec![busy(10_421, 99.5, 1 << 20), busy(7, 3.0, 2 << 20)]);
        let shown = lines(&look, &view(), 20, 12);
        assert_eq!(shown[..3], ["default  CPUs 2-3", "38 % busy", "3 MiB of 256 MiB"]);
        assert!(shown.iter().any(|line| line == "10421  99.5 perl"), "{shown:#?}");
        assert!(shown.last().unwrap().contains("h help  q end"), "{shown:#?}");
        let wide = lines(&look, &view(), 200, 12);
        for word in ["PID", "THREADS", "%SYSTEM", "DELEGATED/s", "COMMAND"] {
            assert!(wide[1].contains(word), "{}", wide[1]);
        }
        assert!(wide[2].contains("long command line'"), "{}", wide[2]);
    }

    #[test]
    fn keys_sort_by_their_column() {
        let look =
            look(vec![busy(30, 1.0, 5 << 20), busy(10, 9.0, 1 << 20), busy(20, 5.0, 9 << 20)]);
        let order = |key, reverse| {
            let text = text(&look, &View { key, reverse, ..view() }, 200);
            let pids =
                text.lines().skip(2).map(|line| line.split_whitespace().next().unwrap().to_owned());
            pids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(Key::Cpu, false), "10 20 30");
        assert_eq!(order(Key::Cpu, true), "30 20 10");
        assert_eq!(order(Key::Memory, false), "20 30 10");
        assert_eq!(order(Key::Time, false), "30 20 10");
        assert_eq!(order(Key::Pid, false), "10 20 30");
        assert_eq!(order(Key::Delegated, false), "10 20 30");
    }

    #[test]
    fn threads_and_cpus_have_lines() {
        let look = look(vec![busy(10, 9.0, 1 << 20)]);
        let shown = lines(&look, &View { threads: true, cpus: true, ..view() }, 80, 20);
        assert!(
            shown[1].starts_with("CPU 2  38 % busy [|||") && shown[2].starts_with("CPU 3"),
            "{shown:#?}"
        );
        assert!(
            shown.iter().any(|line| line.contains("worker-10"))
                && shown.iter().any(|line| line.contains("worker-11")),
            "{shown:#?}"
        );
    }

    #[test]
    fn nothing_is_never_minus_nothing() {
        assert_eq!(
            (number(-0.0, 0), number(-0.04, 1), number([].iter().sum(), 0)),
            ("0".into(), "0.0".into(), "0".into())
        );
        let shown = lines(&look(Vec::new()), &view(), 80, 10);
        assert!(shown[0].contains("0 B of 256 MiB  0 processes"), "{shown:#?}");
        assert!(shown[1].contains("hanare run"), "{shown:#?}");
    }

    #[test]
    fn scrolling_ends_at_the_last_row() {
        let look = look((1..=50).map(|pid| busy(pid, 0.0, 0)).collect());
        let shown = lines(&look, &View { scroll: 1000, ..view() }, 80, 12);
        assert!(
            shown[10].trim_start().starts_with("50 ") && shown[11].starts_with("42-50 of 50"),
            "{shown:#?}"
        );
    }

    #[test]
    fn help_fits_every_width() {
        for width in [10, 20, 40, 80, 200] {
            let shown = lines(&look(Vec::new()), &View { help: true, ..view() }, width, 100);
            assert!(shown.join(" ").contains("memory"), "{width}: {shown:#?}");
        }
    }
}
