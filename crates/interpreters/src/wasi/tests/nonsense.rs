//! Calls with arguments that no guest makes by accident.

use super::*;

/// Makes one call by number; whatever it answers, it must answer.
fn call(sys: &mut Sys, number: u8, a: [u32; 7], big: [u64; 2]) {
    let Sys { wasi, mem, .. } = sys;
    let mem = &mut Mem(mem);
    let [p, q, r, s, t, u, v] = a;
    let [x, y] = big;
    let _ = match number {
        0 => wasi.args_get(mem, p, q),
        1 => wasi.args_sizes_get(mem, p, q),
        2 => wasi.environ_get(mem, p, q),
        3 => wasi.environ_sizes_get(mem, p, q),
        4 => wasi.clock_res_get(mem, p, q),
        5 => wasi.clock_time_get(mem, p, x, q),
        6 => wasi.fd_advise(mem, p, x, y, q),
        7 => wasi.fd_allocate(mem, p, x, y),
        8 => wasi.fd_close(mem, p),
        9 => wasi.fd_datasync(mem, p),
        10 => wasi.fd_fdstat_get(mem, p, q),
        11 => wasi.fd_fdstat_set_flags(mem, p, q),
        12 => wasi.fd_fdstat_set_rights(mem, p, x, y),
        13 => wasi.fd_filestat_get(mem, p, q),
        14 => wasi.fd_filestat_set_size(mem, p, x),
        15 => wasi.fd_filestat_set_times(mem, p, x, y, q),
        16 => wasi.fd_pread(mem, p, q, r, x, s),
        17 => wasi.fd_prestat_get(mem, p, q),
        18 => wasi.fd_prestat_dir_name(mem, p, q, r),
        19 => wasi.fd_pwrite(mem, p, q, r, x, s),
        20 => wasi.fd_read(mem, p, q, r, s),
        21 => wasi.fd_readdir(mem, p, q, r, x, s),
        22 => wasi.fd_renumber(mem, p, q),
        23 => wasi.fd_seek(mem, p, x as i64, q, r),
        24 => wasi.fd_sync(mem, p),
        25 => wasi.fd_tell(mem, p, q),
        26 => wasi.fd_write(mem, p, q, r, s),
        27 => wasi.path_create_directory(mem, p, q, r),
        28 => wasi.path_filestat_get(mem, p, q, r, s, t),
        29 => wasi.path_filestat_set_times(mem, p, q, r, s, x, y, t),
        30 => wasi.path_link(mem, p, q, r, s, t, u, v),
        31 => wasi.path_open(mem, p, q, r, s, t, x, y, u, v),
        32 => wasi.path_readlink(mem, p, q, r, s, t, u),
        33 => wasi.path_remove_directory(mem, p, q, r),
        34 => wasi.path_rename(mem, p, q, r, s, t, u),
        35 => wasi.path_symlink(mem, p, q, r, s, t),
        36 => wasi.path_unlink_file(mem, p, q, r),
        37 => wasi.random_get(mem, p, q),
        38 => wasi.sched_yield(mem),
        39 => wasi.sock_accept(mem, p, q, r),
        40 => wasi.sock_recv(mem, p, q, r, s, t, u),
        41 => wasi.sock_send(mem, p, q, r, s, t),
        42 => wasi.sock_shutdown(mem, p, q),
        _ => wasi.poll_plan(mem, p, q).and_then(|plan| wasi.poll_finish(mem, &plan, r, s)),
    };
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    /// Numbers as they matter: descriptors, lengths, places at the edges of memory.
    fn number(&mut self) -> u32 {
        match self.below(9) {
            0..=3 => self.below(12) as u32,
            4 | 5 => self.below(20_000) as u32,
            6 => (1 << 20) - 40 + self.below(80) as u32,
            7 => self.below(1 << 32) as u32,
            _ => u32::MAX - self.below(10) as u32,
        }
    }

    fn large(&mut self) -> u64 {
        match self.below(8) {
            0..=2 => self.below(300),
            3 => self.below(1 << 47) << self.below(17),
            4 => i64::MAX as u64 - 5 + self.below(10),
            5 => u64::MAX - self.below(5),
            _ => rights::ALL,
        }
    }
}

#[test]
fn any_call_answers_and_nothing_leaves_the_directories() {
    for seed in 1..60 {
        let mut dice = Dice(seed);
        let mut sys = Sys::new();
        // Memory full of names and of buffers that lie in it.
        let text = b"a/../b\0.\0..\0/etc\0module\0".repeat(1 << 16);
        sys.mem.copy_from_slice(&text[..1 << 20]);
        for (at, word) in (4096..12000).step_by(8).zip(0u32..) {
            sys.put(at, &[(word * 7).to_le_bytes(), (word % 50).to_le_bytes()].concat());
        }
        sys.wasi.room = super::super::Room::of(1 << 20, 100);
        for _ in 0..100 {
            let number = dice.below(44) as u8;
            let small = std::array::from_fn(|_| dice.number());
            call(&mut sys, number, small, [dice.large(), dice.large()]);
        }
        assert!(sys.wasi.save().len() <= super::super::fds::FDS_MAX + 8);
        let sys = sys.restored();
        assert_eq!(std::fs::read_dir(sys.at("outside")).expect("list").count(), 1, "{seed}");
        assert_eq!(std::fs::read_dir(sys.at("lib")).expect("list").count(), 1, "{seed}");
        assert_eq!(std::fs::read_dir(sys.dir.path()).expect("list").count(), 4, "{seed}");
    }
}
