//! The help texts, all of them.

fn collect(command: &mut clap::Command, path: &str, text: &mut String) {
    let path = format!("{path}{} ", command.get_name());
    text.push_str(&format!("=== {path}===\n{}\n", command.render_long_help()));
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        collect(inner, &path, text);
    }
}

#[test]
fn help() {
    let mut command = cli::command().term_width(100);
    command.build();
    let mut text = String::new();
    collect(&mut command, "", &mut text);
    insta::assert_snapshot!(text);
}

/// A man page needs a line about everything.
#[test]
fn nothing_is_without_help() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
        }
        command.get_subcommands().for_each(check);
    }
    check(&cli::command());
}
