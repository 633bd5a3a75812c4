//! The report of a run for people, as a file: what it says is in `content`, its parts are in
//! `parts`; `html`, `markdown`, `plot` and `curves` draw them.

mod content;
mod curves;
mod html;
mod markdown;
mod parts;
mod plot;

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::run::Run;
use parts::Block;

/// File and form of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Html,
    Markdown,
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let form = match ending {
            "html" => Form::Html,
            "md" => Form::Markdown,
            _ => return Err(format!("'{text}' ends neither in .html nor in .md")),
        };
        Ok(Self { path, form })
    }
}

impl ReportFile {
    /// Fails if its folder is not there: before minutes are spent.
    pub fn check(&self) -> Result<()> {
        if !self.folder().is_dir() {
            bail!("cannot write {}: its folder is not there", self.path.display());
        }
        Ok(())
    }

    /// Writes the report of a run; the pictures of Markdown are written beside it.
    pub fn write(&self, run: &Run) -> Result<()> {
        let document = content::of(run);
        match self.form {
            Form::Html => write(&self.path, &html::render(&document)),
            Form::Markdown => {
                for block in &document.blocks {
                    if let Block::Picture(picture) = block {
                        let path = self.folder().join(self.picture(&picture.name));
                        write(&path, &on_white(&picture.svg))?;
                    }
                }
                write(&self.path, &markdown::render(&document, &|name| self.picture(name)))
            }
        }
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
    }

    /// Name of a picture's file, which lies in the same folder.
    fn picture(&self, name: &str) -> String {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        format!("{stem}-{name}.svg")
    }
}

/// A picture that is read on a dark page, too: a file does not take the colours of what shows it.
fn on_white(svg: &str) -> String {
    const BACKGROUND: &str = "<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n";
    let begin = svg.find('\n').map_or(svg.len(), |end| end + 1);
    format!("{}{BACKGROUND}{}", &svg[..begin], &svg[begin..])
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
