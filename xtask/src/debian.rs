//! Packages of Debian's releases: fetched with what they depend on, unpacked, and never installed.
//!
//! `apt` fetches with a configuration of its own in a folder of ours, so that it checks signatures
//! as it always does, and neither knows nor changes what this machine has.

use crate::shell;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where releases are, and what apt must know of the place: those that are kept up, and those that
/// are only kept, whose lists are too old for apt unless it is told.
const PLACES: [(&str, &str); 2] = [
    ("http://deb.debian.org/debian", ""),
    ("http://archive.debian.org/debian", " check-valid-until=no"),
];

/// Fills a folder unless this very thing is there already.
pub fn once(folder: &Path, what: &str, fill: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join(".fetched");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == what) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fill().with_context(|| format!("could not fetch {what}"))?;
    fs::write(&stamp, what)?;
    Ok(())
}

/// apt for one release of Debian, with everything it keeps in a folder of ours.
#[derive(Debug)]
pub struct Apt {
    options: Vec<String>,
    archives: PathBuf,
}

impl Apt {
    /// Prepares the folder and asks for the newest lists, for one processor as Debian names it.
    pub fn of(folder: &Path, release: &str, arch: &str) -> Result<Self> {
        let own = folder.join(format!("apt-{release}"));
        let archives = own.join("cache/archives");
        if archives.exists() {
            // What an earlier attempt left is of something else.
            fs::remove_dir_all(&archives)?;
        }
        fs::create_dir_all(own.join("state/lists/partial"))?;
        fs::create_dir_all(archives.join("partial"))?;
        // As if nothing were installed, so that what is needed is fetched though this machine has it.
        fs::write(own.join("status"), "")?;
        let at = |name: &str| own.join(name).display().to_string();
        let options = [
            ("Dir::State", at("state")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("Dir::Etc::SourceList", at("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::Etc::Preferences", "/dev/null".to_owned()),
            ("Dir::Etc::PreferencesParts", "/dev/null".to_owned()),
            ("Acquire::Languages", "none".to_owned()),
            ("APT::Architecture", arch.to_owned()),
            ("APT::Architectures", arch.to_owned()),
            // The user that root's apt fetches as has no way into this folder.
            ("APT::Sandbox::User", "root".to_owned()),
        ];
        let options = options.iter().map(|(name, value)| format!("--option={name}={value}"));
        let apt = Self { options: options.collect(), archives };
        apt.find(&own.join("sources.list"), release)?;
        Ok(apt)
    }

    /// Takes the first place that has the release.
    fn find(&self, sources: &Path, release: &str) -> Result<()> {
        for (place, option) in PLACES {
            let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
            fs::write(sources, format!("deb [signed-by={keys}{option}] {place} {release} main\n"))?;
            let mut update = self.command("apt-get");
            // Without the last word, apt only warns, and goes on without lists.
            match shell::run(update.args(["update", "-qq", "--error-on=any"])) {
                Ok(()) => return Ok(()),
                Err(error) => println!("no Debian {release} from {place}: {error:#}"),
            }
        }
        bail!(
            "Debian {release} was not fetched from {}",
            PLACES.map(|(place, _)| place).join(" or ")
        )
    }

    /// A program of apt with this configuration.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options);
        command
    }

    /// Fetches a package alone and unpacks it into a folder.
    pub fn fetch(&self, package: &str, into: &Path) -> Result<()> {
        shell::run_in(&self.archives, self.command("apt-get").args(["download", "-qq", package]))?;
        self.unpack(into)
    }

    /// Fetches packages and what they depend on, and unpacks all into a folder.
    pub fn fetch_with_dependencies(&self, packages: &[&str], into: &Path) -> Result<()> {
        let mut install = self.command("apt-get");
        install.args(["install", "-qq", "-y", "--download-only", "--no-install-recommends"]);
        shell::run(install.args(packages))?;
        self.unpack(into)
    }

    /// Unpacks what was fetched into the folder `files` in a folder, and forgets it.
    fn unpack(&self, into: &Path) -> Result<()> {
        for entry in fs::read_dir(&self.archives)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                shell::run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into.join("files")))?;
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}
