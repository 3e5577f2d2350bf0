use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// A machine that is reached by this command.
fn machine(words: &[&str]) -> Machine {
    let prefix = words.iter().map(|word| (*word).to_owned()).collect();
    Machine { name: "edge".to_owned(), prefix }
}

/// A program that prints a version.
fn program(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("own");
    std::fs::write(&path, "#!/bin/sh\necho hoptax 1\n").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// The directories of copies below `base`.
fn copies(base: &str) -> Vec<String> {
    let names = std::fs::read_dir(base).expect("a directory").flatten();
    names.map(|entry| entry.path().display().to_string()).collect()
}

/// A directory for copies that others cannot write, whatever the umask is.
fn base(scratch: &tempfile::TempDir) -> String {
    let base = scratch.path().join("there").display().to_string();
    std::fs::create_dir(&base).expect("made");
    set_mode(&base, 0o755);
    base
}

fn set_mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn the_program_is_copied_once_and_an_older_one_is_replaced() {
    for write in [by_dd as Write, by_cp] {
        let scratch = tempfile::tempdir().expect("a directory");
        let (exe, base) = (program(scratch.path()), base(&scratch));
        let base = base.as_str();
        let there = machine(&["env"]);
        let older = there.with_copy(base, write, Path::new("/bin/true"), &mut |_| {}).expect("copied");
        let mut said = Vec::new();
        let copied = there.with_copy(base, write, &exe, &mut |what| said.push(what.to_owned()));
        let copied = copied.expect("copied");
        assert_eq!(std::fs::read(&copied).expect("there"), std::fs::read(&exe).expect("here"));
        assert!(!Path::new(&older).exists(), "the older one");
        assert!(said.len() == 1 && said[0].contains("(1 MB)"), "{said:?}");
        let again = there.with_copy(base, write, &exe, &mut |what| panic!("{what}"));
        assert_eq!(again.expect("it is there"), copied);
        let metadata = |path: &str| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (metadata(&copied), copies(base).iter().map(|one| metadata(one)).collect()),
            (0o700, vec![0o700])
        );
    }
}

#[test]
fn a_planted_program_is_not_run() {
    let scratch = tempfile::tempdir().expect("a directory");
    let exe = program(scratch.path());
    let base = base(&scratch);
    // Earlier versions looked for a copy here. Everybody can calculate the digest in this name.
    let mut predictable = hoptax_record::Digest::default();
    predictable.add(&std::fs::read(&exe).expect("read"));
    let predictable = format!("{base}/{}", predictable.text());
    std::fs::create_dir_all(&predictable).expect("made");
    let ran = scratch.path().join("ran").display().to_string();
    let planted = format!("#!/bin/sh\ntouch {ran}\necho hoptax 1\n");
    let plant = |directory: &str, text: &str| {
        std::fs::write(format!("{directory}/hoptax"), text).expect("written");
        set_mode(&format!("{directory}/hoptax"), 0o700);
        set_mode(directory, 0o700);
    };
    plant(&predictable, &planted);
    let there = machine(&["env"]);
    let copy = |there: &Machine| there.with_copy(&base, by_cp, &exe, &mut |_| {}).expect("copied");
    let first = copy(&there);
    assert_ne!(first, format!("{predictable}/hoptax"));
    // Another program in the right place.
    plant(first.trim_end_matches("/hoptax"), &planted);
    let second = copy(&there);
    assert_ne!(second, first);
    // The right program, but other users may write to it or to its directory, or replace its directory.
    let directory = second.trim_end_matches("/hoptax").to_owned();
    for (path, mode, usual) in [(&second, 0o722, 0o700), (&directory, 0o777, 0o700), (&base, 0o777, 0o755)] {
        set_mode(path, mode);
        let other = copy(&there);
        assert_ne!(other, second, "{path} has mode {mode:o}");
        std::fs::remove_dir_all(other.trim_end_matches("/hoptax")).expect("ours");
        set_mode(path, usual);
        assert_eq!(copy(&there), second, "{path} has mode {usual:o} again");
    }
    // In a sticky directory such as /tmp, users cannot replace files of other users.
    set_mode(&base, 0o1777);
    assert_eq!(copy(&there), second);
    // A link to it.
    std::fs::rename(&directory, format!("{base}/elsewhere")).expect("ours");
    std::os::unix::fs::symlink("elsewhere", &directory).expect("made");
    assert_ne!(copy(&there), second);
    assert!(!Path::new(&ran).exists(), "a planted program was run");
}

#[test]
fn a_copy_of_another_user_is_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let exe = program(scratch.path());
    let base = base(&scratch);
    let copied = machine(&["env"]).with_copy(&base, by_cp, &exe, &mut |_| {}).expect("copied");
    // A machine with the same files, on which `id` prints another user.
    let bin = scratch.path().join("bin");
    std::fs::create_dir(&bin).expect("made");
    let id = bin.join("id").display().to_string();
    std::fs::write(&id, "#!/bin/sh\necho 4711\n").expect("written");
    set_mode(&id, 0o755);
    let path = format!("PATH={}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let other = machine(&["env", &path]).with_copy(&base, by_cp, &exe, &mut |_| {}).expect("copied");
    assert_ne!(other, copied);
    assert!(Path::new(&copied).exists(), "nothing of another user is removed");
}

#[test]
fn without_commands_that_prove_a_copy_the_program_is_copied_again() {
    let scratch = tempfile::tempdir().expect("a directory");
    let exe = program(scratch.path());
    let base = base(&scratch);
    for missing in ["ls", "id", "sha256sum"] {
        let script = format!("[ \"$0\" != {missing} ] || exit 127; exec \"$0\" \"$@\"");
        let there = machine(&["sh", "-c", &script]);
        let first = there.with_copy(&base, by_cp, &exe, &mut |_| {}).expect("copied");
        let second = there.with_copy(&base, by_cp, &exe, &mut |_| {}).expect("copied");
        assert_ne!(first, second, "without {missing}");
    }
}

#[test]
fn a_list_of_files_is_believed_only_if_it_is_exact() {
    let paths = ["/tmp", "/tmp/x", "/tmp/x/hoptax"];
    let list = |base: &str, directory: &str, program: &str| {
        format!(
            "{base} 9 0 0 40 Jan 1 00:00 /tmp\n{directory} 2 1000 0 40 Jan 1 00:00 /tmp/x\n{program} 1 \
             1000 0 9 Jan 1 00:00 /tmp/x/hoptax\n"
        )
    };
    let right = list("drwxrwxrwt", "drwx------", "-rwx------.");
    assert!(is_private(&right, &paths, "1000"));
    assert!(!is_private(&right, &paths, "0") && !is_private(&right, &paths, "100"));
    for wrong in [
        list("drwxrwxrwx", "drwx------", "-rwx------"),
        list("lrwxrwxrwx", "drwx------", "-rwx------"),
        list("drwxrwxrwt", "lrwxrwxrwx", "-rwx------"),
        list("drwxrwxrwt", "drwxr-x---", "-rwx------"),
        list("drwxrwxrwt", "drwx------", "-rwxr-x---"),
        list("drwxrwxrwt", "drwx------", "lrwxrwxrwx"),
        format!("{right}\n"),
        right.lines().take(2).collect::<Vec<_>>().join("\n"),
    ] {
        assert!(!is_private(&wrong, &paths, "1000"), "{wrong}");
    }
    let good = format!("{PREFIX}{}", "0a".repeat(16));
    assert!(is_name(&good) && !is_name(&format!("{good}0")) && !is_name(&good.to_uppercase()));
}

#[test]
fn errors_name_the_host_and_the_command_and_say_what_to_try() {
    let scratch = tempfile::tempdir().expect("a directory");
    let exe = program(scratch.path());
    let error = |there: &Machine, folder: &str| {
        format!("{:#}", there.with_copy(folder, by_dd, &exe, &mut |_| {}).expect_err("it cannot be copied"))
    };
    let no_directory = error(&machine(&["env"]), "/dev/null/x");
    assert!(no_directory.starts_with("host edge: `env mkdir -p /dev/null/x`"), "{no_directory}");
    assert!(no_directory.contains("`hoptax`"), "{no_directory}");
    let no_command = error(&machine(&["no-such-command", "edge"]), "x");
    let no_host = error(&machine(&["sh", "-c", "echo no route >&2; exit 255"]), "x");
    insta::assert_snapshot!(format!("{no_command}\n{no_host}"));
    // /dev/full is a disk without space.
    for write in [by_dd as Write, by_cp] {
        let words = write("/dev/full");
        let own = Some(File::open(&exe).expect("there"));
        let full = machine(&["env"]).must(&words.each_ref().map(String::as_str), own, STEP);
        assert!(format!("{:#}", full.expect_err("full")).contains("No space left"), "the disk is full");
    }
}

#[test]
fn a_program_that_does_not_run_there_is_an_error() {
    let scratch = tempfile::tempdir().expect("a directory");
    let exe = scratch.path().join("own");
    std::fs::write(&exe, "#!/no/such/loader\n").expect("written");
    let folder = scratch.path().join("there").display().to_string();
    let error = machine(&["env"]).with_copy(&folder, by_dd, &exe, &mut |_| {}).expect_err("no loader");
    assert!(format!("{error:#}").contains("copy the static build"), "{error:#}");
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    let late = machine(&["env"]).run(&["sleep", "60"], None, Duration::from_millis(100));
    insta::assert_snapshot!(late.expect_err("too late"));
}
