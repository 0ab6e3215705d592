;; A module whose driver lives on the host: see small.rs.
(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "wasi_snapshot_preview1" "clock_time_get"
        (func $clock (param i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff"
        (func $poll (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write"
        (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "thread_spawn" (func $unknown (param i64) (result i32)))
    (memory (export "memory") 4)
    (table (export "table") 1 funcref)
    (global $sp (export "__stack_pointer") (mut i32) (i32.const 65536))
    (func (export "exit") (param i32) (call $exit (local.get 0)))
    (func (export "clock") (result i64)
        (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 16)))
        (i64.load (i32.const 16)))
    (func (export "unknown") (result i32) (call $unknown (i64.const 0)))
    (func (export "spin") (loop (br 0)))
    (func (export "trap") unreachable)
    (func $deep (export "deep") (result i32) (i32.add (i32.const 1) (call $deep)))
    (func (export "lean") (global.set $sp (i32.const 65520)))
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
    ;; A subscription at 1024: the monotonic clock, relative.
    (func (export "sleep") (param i64) (result i32)
        (i64.store (i32.const 1024) (i64.const 7))
        (i64.store (i32.const 1032) (i64.const 0))
        (i64.store (i32.const 1040) (i64.const 1))
        (i64.store (i32.const 1048) (local.get 0))
        (i64.store (i32.const 1056) (i64.const 0))
        (i64.store (i32.const 1064) (i64.const 0))
        (call $poll (i32.const 1024) (i32.const 1100) (i32.const 1) (i32.const 1200)))
    ;; Writes the bytes at 2048 to a stream as often as is asked for.
    (func (export "say") (param $fd i32) (param $len i32) (param $times i32)
        (i32.store (i32.const 1024) (i32.const 2048))
        (i32.store (i32.const 1028) (local.get $len))
        (loop
            (drop (call $write
                (local.get $fd) (i32.const 1024) (i32.const 1) (i32.const 1032)))
            (local.set $times (i32.sub (local.get $times) (i32.const 1)))
            (br_if 0 (i32.gt_s (local.get $times) (i32.const 0)))))
)
