//! Finds out whether a process has code in memory that it generated itself, as runtimes do that compile while
//! they run (JVM, .NET, V8, LuaJIT).

use std::fs;

/// True if the process has executable memory that belongs to no file. False if its memory map cannot be read.
pub(super) fn has_generated_code(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.lines().any(is_generated))
}

/// Names of mappings without a file (proc_pid_maps(5)): named anonymous memory, memory of `memfd_create`
/// (where .NET keeps its code), and shared anonymous memory (the code of PHP).
const WITHOUT_FILE: [&str; 4] = ["[anon", "/memfd:", "/dev/zero", "/SYSV"];

/// Reads a line `ADDRESSES PERMISSIONS OFFSET DEVICE INODE NAME`. The name is absent if the memory has none.
/// The kernel's own code (`[vdso]`) has a name.
fn is_generated(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let is_executable = words.next().is_some_and(|permissions| permissions.contains('x'));
    let name = words.nth(3);
    is_executable && name.is_none_or(|name| WITHOUT_FILE.iter().any(|without| name.starts_with(without)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_memory_without_a_file_is_generated() {
        for generated in [
            "7f1c00000000-7f1c00270000 rwxp 00000000 00:00 0 ",
            "7f1c00000000-7f1c00270000 r-xp 00000000 00:00 0                          [anon:v8]",
            "7f1c00000000-7f1c00270000 r-xs 00010000 00:01 1027    /memfd:doublemapper (deleted)",
            "7f1c00000000-7f1c00270000 rwxs 00000000 00:01 17      /dev/zero (deleted)",
        ] {
            assert!(is_generated(generated), "{generated}");
        }
        for other in [
            "55d0a0000000-55d0a0021000 rw-p 00000000 00:00 0                          [heap]",
            "7f1c00000000-7f1c00270000 rw-p 00000000 00:00 0 ",
            "7f1c00000000-7f1c00270000 r-xp 00026000 08:01 3932    /usr/lib/libc.so.6",
            "7ffd2c5f9000-7ffd2c5fb000 r-xp 00000000 00:00 0                          [vdso]",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
            "",
        ] {
            assert!(!is_generated(other), "{other}");
        }
    }

    #[test]
    fn this_program_is_compiled_beforehand() {
        let own = std::process::id() as i32;
        assert!(fs::read_to_string(format!("/proc/{own}/maps")).is_ok_and(|maps| maps.contains("r-xp")));
        assert!(!has_generated_code(own));
    }
}
