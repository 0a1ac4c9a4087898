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

/// A recording that is to be written, and how.
#[derive(Clone, Debug)]
pub struct Document {
    /// What.
    pub profile: Profile,
    /// In which format.
    pub format: Format,
    /// Whether a picture begins with what runs, and goes on to who called it. Other formats leave that
    /// to the program that shows them.
    pub is_reversed: bool,
    /// What a picture is set beside, to show what changed. Other formats have no place for it.
    pub baseline: Option<Profile>,
}

impl Document {
    /// A recording as it is.
    pub const fn new(profile: Profile, format: Format) -> Self {
        Self { profile, format, is_reversed: false, baseline: None }
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Folded => self.profile.write_folded(out),
            Format::Svg => self.write_svg(out),
            Format::Pprof => self.profile.write_pprof(out),
            Format::Firefox => self.profile.write_firefox(out),
            Format::Speedscope => self.profile.write_speedscope(out),
        }
    }
}
