//! What stands for something else in the values of settings: `%` and a letter, `${VARIABLE}`, and
//! `~` at the start of a path. See ssh_config(5), "TOKENS" and "ENVIRONMENT VARIABLES".
//!
//! `ssh -G` replaces those of `HostName`, `UserKnownHostsFile`, `ControlPath` and `IdentityAgent`
//! itself, and leaves those of `IdentityFile`, `CertificateFile` and `ProxyCommand`, because `ssh`
//! replaces them only when it uses them (`main`, `load_public_identity_files` in OpenSSH's ssh.c).

use super::{Account, Outside};
use std::path::PathBuf;

/// What the tokens stand for, for one login.
#[derive(Clone, Copy)]
pub struct Tokens<'t> {
    /// Who logs in from where: `%d`, `%i`, `%l`, `%L`, `%u`.
    pub account: &'t Account,
    /// The host as it was given: `%n`.
    pub given: &'t str,
    /// The host as the configuration has it: `%h`.
    pub host: &'t str,
    /// The name under which known_hosts keeps it: `%k`.
    pub alias: &'t str,
    /// The port: `%p`.
    pub port: u16,
    /// The user on the host: `%r`.
    pub user: &'t str,
}

impl Tokens<'_> {
    /// A path with all of them, as `IdentityFile` has it.
    ///
    /// # Errors
    ///
    /// When one is not known, or has no value.
    pub fn path(&self, setting: &str, text: &str) -> Result<PathBuf, Outside> {
        self.replaced(setting, text).map(PathBuf::from)
    }

    /// As [`Self::path`], as text.
    ///
    /// # Errors
    ///
    /// When one is not known, or has no value.
    pub fn replaced(&self, setting: &str, text: &str) -> Result<String, Outside> {
        // In this order, as `load_public_identity_files` does it.
        tilde(self.account, text)
            .and_then(|path| replace(&path, |token| self.token(token), |name| self.variable(name)))
            .ok_or_else(|| Outside::setting(setting, text.as_bytes()))
    }

    /// A command that a shell is given, as `ProxyCommand` has it (`expand_proxy_command` in
    /// OpenSSH's sshconnect.c). `${…}` is left to the shell.
    ///
    /// # Errors
    ///
    /// When a token is not one that stands there.
    pub fn command(&self, setting: &str, text: &str) -> Result<String, Outside> {
        let token = |token| match token {
            'h' | 'k' | 'n' | 'p' | 'r' => self.token(token),
            _ => None,
        };
        replace(text, token, |_| Variable::IsText)
            .ok_or_else(|| Outside::setting(setting, text.as_bytes()))
    }

    /// What a token stands for. `%C`, a hash, and `%j`, which only newer versions have, do not
    /// stand for anything here.
    fn token(&self, token: char) -> Option<String> {
        let account = self.account;
        Some(match token {
            'L' => account.machine.split('.').next().unwrap_or_default().to_owned(),
            'd' => account.home.clone(),
            'h' => self.host.to_owned(),
            'i' => account.uid.to_string(),
            'k' => self.alias.to_owned(),
            'l' => account.machine.clone(),
            'n' => self.given.to_owned(),
            'p' => self.port.to_string(),
            'r' => self.user.to_owned(),
            'u' => account.name.clone(),
            _ => return None,
        })
    }

    fn variable(&self, name: &str) -> Variable {
        let value = self.account.environment.get(name);
        value.map_or(Variable::IsMissing, |value| Variable::Is(value.clone()))
    }
}

/// A `HostName`, which knows `%h` alone: the host as it was given.
pub fn host_name(text: &str, given: &str) -> Option<String> {
    let token = |token| (token == 'h').then(|| given.to_owned());
    replace(text, token, |_| Variable::IsText)
}

/// What `${…}` is.
enum Variable {
    /// It has this value.
    Is(String),
    /// It has no value, which `ssh` does not accept.
    IsMissing,
    /// It is no variable here, but text like any other.
    IsText,
}

/// Replaces tokens and variables in one pass, so that nothing in a value is replaced again
/// (`vdollar_percent_expand` in OpenSSH's misc.c).
fn replace(
    text: &str,
    token: impl Fn(char) -> Option<String>,
    variable: impl Fn(&str) -> Variable,
) -> Option<String> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['%', '$']) {
        let (before, from) = rest.split_at(at);
        replaced.push_str(before);
        if let Some(after) = from.strip_prefix('%') {
            let letter = after.chars().next()?;
            match letter {
                '%' => replaced.push('%'),
                letter => replaced.push_str(&token(letter)?),
            }
            rest = after.strip_prefix(letter)?;
            continue;
        }
        rest = match from.strip_prefix("${").map(|inside| inside.split_once('}')) {
            Some(Some((name, after))) => match variable(name) {
                Variable::Is(value) => {
                    replaced.push_str(&value);
                    after
                }
                Variable::IsMissing => return None,
                Variable::IsText => {
                    replaced.push('$');
                    from.strip_prefix('$')?
                }
            },
            Some(None) if !matches!(variable(""), Variable::IsText) => return None,
            Some(None) | None => {
                replaced.push('$');
                from.strip_prefix('$')?
            }
        };
    }
    replaced.push_str(rest);
    Some(replaced)
}

/// Replaces `~` and `~name` at the start of a path (`tilde_expand` in OpenSSH's misc.c).
pub fn tilde(account: &Account, text: &str) -> Option<String> {
    let Some(after) = text.strip_prefix('~') else {
        return Some(text.to_owned());
    };
    let (name, below) = after.split_once('/').unwrap_or((after, ""));
    let home = if name.is_empty() { &account.home } else { account.homes.get(name)? };
    Some(format!("{}/{}", home.trim_end_matches('/'), below.trim_start_matches('/')))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Somebody, on some machine.
    pub fn account() -> Account {
        let list = "me:x:1000:1000::/home/me:/bin/sh\nother:x:1001:1001::/home/other/:/bin/sh";
        let mut account = Account::from_list(list, 1000).unwrap();
        account.machine = "desk.example".to_owned();
        account.environment =
            [("KEYS", "/keys"), ("ODD", "%h~")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        account
    }

    fn tokens(account: &Account) -> Tokens<'_> {
        Tokens { account, given: "web", host: "web.example", alias: "alias", port: 2222, user: "r" }
    }

    #[test]
    fn a_path_has_all_tokens() {
        let account = account();
        let cases = [
            ("~/.ssh/id", "/home/me/.ssh/id"),
            ("~//a", "/home/me/a"),
            ("~", "/home/me/"),
            ("~other/k", "/home/other/k"),
            ("a~/b", "a~/b"),
            ("%d/%h-%i-%k-%l-%L", "/home/me/web.example-1000-alias-desk.example-desk"),
            ("/%n_%p_%r_%u_%%h", "/web_2222_r_me_%h"),
            ("${KEYS}/a$b$", "/keys/a$b$"),
            ("/${ODD}%%", "/%h~%"),
            ("$KEYS", "$KEYS"),
        ];
        for (text, want) in cases {
            assert_eq!(tokens(&account).path("identityfile", text).unwrap(), PathBuf::from(want));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_replaced_or_refused(text in ".*") {
            let account = account();
            let path = tokens(&account).path("identityfile", &text);
            let command = tokens(&account).command("proxycommand", &text);
            if !text.contains(['%', '$', '~']) {
                proptest::prop_assert_eq!(path, Ok(PathBuf::from(&text)));
                proptest::prop_assert_eq!(command, Ok(text));
            }
        }
    }

    #[test]
    fn what_is_not_known_is_not_left_as_it_is() {
        let account = account();
        for text in ["%", "a%", "%C", "%j", "%x", "%é", "~nobody/k", "${NONE}", "${", "${}", "% h"]
        {
            assert!(tokens(&account).path("identityfile", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_has_few_tokens_and_its_variables_are_the_shells() {
        let account = account();
        let tokens = tokens(&account);
        for (text, want) in [
            ("nc %h %p", "nc web.example 2222"),
            ("x %n %r@%k %%p ~/a", "x web r@alias %p ~/a"),
            ("x ${KEYS} $KEYS ${", "x ${KEYS} $KEYS ${"),
        ] {
            assert_eq!(tokens.command("proxycommand", text).unwrap(), want);
        }
        for text in ["%d", "%u", "%l", "%L", "%i", "%C", "%", "x %T"] {
            assert!(tokens.command("proxycommand", text).is_err(), "{text}");
        }
    }
}
