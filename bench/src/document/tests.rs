//! A report is compared with the one that is kept in `tests/documents`; `HANARE_BLESS=1` writes it
//! anew.

use super::*;
use crate::run::tests::EXAMPLE;

fn example() -> Run {
    Run::parse(EXAMPLE).unwrap()
}

fn html_of(run: &Run) -> String {
    html::render(&content::of(run))
}

fn markdown_of(run: &Run) -> String {
    markdown::render(&content::of(run), &|name| format!("figures-{name}.svg"))
}

fn is_kept(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents").join(name);
    if std::env::var_os("HANARE_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let different = kept.lines().zip(text.lines()).find(|(kept, text)| kept != text);
    assert!(kept == text, "{name} (HANARE_BLESS=1 writes it): {different:?}");
}

#[test]
fn the_example_gives_the_reports_that_are_kept() {
    is_kept("example.markdown", &markdown_of(&example()));
    is_kept("example.html", &html_of(&example()));
}

#[test]
fn missed_targets_come_first() {
    let text = markdown_of(&example());
    let place = |text: &str, what: &str| text.find(what).unwrap();
    assert!(place(&text, "## Missed targets") < place(&text, "## All figures"));
    let first = text.split("## Missed targets").nth(1).unwrap().split("##").next().unwrap();
    assert!(first.contains("call.delegated") && !first.contains("call.local"), "{first}");
}

#[test]
fn foreign_text_stays_text() {
    let evil = "<script>alert('x')</script> | `a` & \"b\"\n# c";
    let mut run = example();
    run.machine.processor = evil.into();
    run.machine.linux.boot_options = Some(evil.into());
    run.machine.linux.mitigations.insert(evil.into(), evil.into());
    run.not_measured[0].why = evil.into();
    for figure in &mut run.figures {
        for text in [&mut figure.id, &mut figure.group, &mut figure.what, &mut figure.unit] {
            *text = evil.into();
        }
    }
    let html = html_of(&run);
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;"));
    let markdown = markdown_of(&run);
    assert!(!markdown.contains("<script"));
    // No cell and no line has been added.
    let table = markdown.lines().filter(|line| line.starts_with("| Processor"));
    assert_eq!(
        table.map(|line| line.replace("\\|", "").matches('|').count()).collect::<Vec<_>>(),
        [3]
    );
    assert!(!markdown.lines().any(|line| line.starts_with("# c")));
}

#[test]
fn html_loads_nothing_from_elsewhere() {
    let html = html_of(&example()).replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "<script", "<link", "@import", "url(", "src="] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("prefers-color-scheme:dark"));
}

#[test]
fn an_empty_run_has_a_report() {
    let mut run = example();
    run.figures.clear();
    run.not_measured.clear();
    run.machine.lwk = None;
    for text in [html_of(&run), markdown_of(&run)] {
        assert!(text.contains("Nothing was measured."));
        assert!(text.contains("No figure with a target was measured."));
        assert!(!text.contains("<svg") && !text.contains("![") && !text.contains("NaN"));
    }
}

#[test]
fn one_sample_and_a_missing_side_have_a_report() {
    let run = example();
    let of = |id: &str| {
        let mut one = run.clone();
        one.figures.retain(|figure| figure.id == id);
        assert_eq!(one.figures.len(), 1, "{id}");
        markdown_of(&one)
    };
    assert!(of("start.true").contains("| 272 | - | 55.0 | - | 4.95x | - |"));
    // Of the LWK only, of Linux only.
    for id in ["boot.total", "only.linux"] {
        let text = of(id);
        assert!(text.contains(" - |") && !text.contains("figures-ratios.svg"), "{text}");
        assert!(text.contains("figures-"), "{text}");
    }
}

#[test]
fn pictures_lie_beside_the_file_whatever_a_group_is_called() {
    let mut run = example();
    run.figures.iter_mut().for_each(|figure| figure.group = "../../etc/x".into());
    let folder = std::env::temp_dir().join(format!("hanare-report-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file: ReportFile = folder.join("a b.md").to_str().unwrap().parse().unwrap();
    file.write(&run).unwrap();
    let names = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    let text = fs::read_to_string(folder.join("a b.md")).unwrap();
    let picture = fs::read_to_string(folder.join("a b-ratios.svg")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("<rect width=\"100%\""));
    assert_eq!(names[0], "a b-------etc-x-1.svg");
    assert!(text.contains("(a%20b-ratios.svg)"));
}

#[test]
fn the_form_is_chosen_by_the_ending() {
    let of = |text: &str| text.parse::<ReportFile>().map(|file| file.form);
    assert_eq!(of("a/b.html"), Ok(Form::Html));
    assert_eq!(of("b.md"), Ok(Form::Markdown));
    assert_eq!(of("b.pdf"), Err("'b.pdf' ends neither in .html nor in .md".into()));
    assert!(of("html").is_err());
    let file: ReportFile = "/no/such/folder/a.md".parse().unwrap();
    assert!(file.check().is_err());
    assert!("a.md".parse::<ReportFile>().unwrap().check().is_ok());
}
