//! The formats.

use super::Profile;
use std::io::{self, Write};

/// What a recording is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A line of text for each stack, for flame graph programs
    Folded,
    /// A flame graph, to look at in any browser
    Svg,
    /// For `go tool pprof`
    Pprof,
    /// JSON for profiler.firefox.com
    Firefox,
    /// JSON for www.speedscope.app
    Speedscope,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Folded, Self::Svg, Self::Pprof, Self::Firefox, Self::Speedscope];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Pprof => "pprof",
            Self::Firefox => "firefox",
            Self::Speedscope => "speedscope",
        }
    }

    /// How files of this format end, by custom.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Pprof => "pb.gz",
            Self::Firefox => "profile.json",
            Self::Speedscope => "speedscope.json",
        }
    }

    /// Whether a terminal cannot show it.
    pub const fn is_binary(self) -> bool {
        match self {
            Self::Pprof => true,
            Self::Folded | Self::Svg | Self::Firefox | Self::Speedscope => false,
        }
    }
}

impl Profile {
    /// Writes the profile in a format.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Folded => self.write_folded(out),
            Format::Svg => self.write_svg(out),
            Format::Pprof => self.write_pprof(out),
            Format::Firefox => self.write_firefox(out),
            Format::Speedscope => self.write_speedscope(out),
        }
    }
}
