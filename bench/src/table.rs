//! Results as Markdown.

use anyhow::Result;
use std::{fs, process::Command};

/// A title, what machine this was, and when, without its name.
pub fn heading(title: &str, command: &str) -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let processors = std::thread::available_parallelism()?;
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output()?.stdout;
    let version = release.trim().split('-').next().unwrap_or_default().to_owned();
    Ok(format!(
        "# {title}\n\nWritten by `{command}` on {}: {} processors, Linux {version}, {}. Everything is of \
         one run.\n",
        String::from_utf8_lossy(&date).trim(),
        processors,
        std::env::consts::ARCH,
    ))
}

/// A section with a table.
pub fn section(title: &str, note: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("\n## {title}\n\n{note}\n\n| {} |\n|", headings.join(" | "));
    for index in 0..headings.len() {
        text.push_str(if index == 0 { "---|" } else { "---:|" });
    }
    text.push('\n');
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// The middle of some values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
