//! A report as one HTML file: nothing is loaded from elsewhere.

use super::parts::{Block, Cell, Column, Document, Mark, Picture, Table};

/// Plots are drawn in black on nothing, and take the colour of the text.
const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--line:#d0d7de;--good:#116329;--bad:#a40e26;--blue:#0072b2;\
--orange:#d55e00;--green:#009e73}
@media(prefers-color-scheme:dark){:root{--back:#14171b;--text:#dfe4ea;--line:#3a424c;--good:#7ee787;--bad:#ff9492;\
--blue:#56b4e9;--orange:#f0995a;--green:#4fc9a5}}
body{background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;\
padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}
.number{text-align:right;white-space:nowrap}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}
.warning{border-left:.3rem solid var(--bad);padding-left:.7rem}
figure{margin:1.5rem 0}svg{max-width:100%;height:auto}figcaption{font-size:.9em}
svg text{fill:var(--text)}svg [stroke='#000000']{stroke:var(--text)}svg [stroke='#BBBBBB']{stroke:var(--line)}
svg [fill='#0072B2']{fill:var(--blue)}svg [stroke='#0072B2']{stroke:var(--blue)}
svg [fill='#D55E00']{fill:var(--orange)}svg [stroke='#D55E00']{stroke:var(--orange)}
svg [fill='#009E73']{fill:var(--green)}svg [stroke='#009E73']{stroke:var(--green)}
@media print{body{max-width:none}table,figure{break-inside:avoid}}
";

/// The HTML file of a document.
pub fn render(document: &Document) -> String {
    let title = escape(&document.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n"
    );
    for block in &document.blocks {
        match block {
            Block::Heading(heading) => text += &format!("<h2>{}</h2>\n", escape(heading)),
            Block::Text(said) => text += &format!("<p>{}</p>\n", escape(said)),
            Block::Warning(said) => text += &format!("<p class=\"warning\">{}</p>\n", escape(said)),
            Block::Table(table) => text += &render_table(table),
            Block::Picture(Picture { caption, svg, .. }) => {
                let caption = escape(caption);
                text += &format!("<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n");
            }
        }
    }
    text + "</body>\n</html>\n"
}

fn render_table(table: &Table) -> String {
    let class = |column: &Column, mark: Mark| {
        let number = matches!(column, Column::Number(_)).then_some("number");
        let mark = match mark {
            Mark::Plain => None,
            Mark::Good => Some("good"),
            Mark::Bad => Some("bad"),
        };
        let classes: Vec<&str> = [number, mark].into_iter().flatten().collect();
        if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
    };
    let mut text = String::from("<table>\n<thead><tr>");
    for column in table.header {
        text += &format!("<th{}>{}</th>", class(column, Mark::Plain), escape(column.name()));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += "<tr>";
        for (column, Cell { text: said, mark }) in table.header.iter().zip(row) {
            text += &format!("<td{}>{}</td>", class(column, *mark), escape(said));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>\n"
}

/// A text that is only text, within an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // Not allowed in XML, which a saved picture is.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
