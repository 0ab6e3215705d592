use super::*;

const LIMITS: Limits = Limits { memory_mib: 64, vcpu: 0.5, pids: 32, disk_mb: 100 };

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pi\\040ds rw,relatime shared:3 - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
const OWN: &str = "8:pids:/a\n4:memory:/x/y\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/user.slice/u\n";

#[test]
fn hybrid_mounts_are_found() {
    let mounts = Mounts::parse(HYBRID, OWN);
    let v2 = mounts.v2.unwrap();
    assert_eq!(v2.root, Path::new("/sys/fs/cgroup/unified"));
    assert_eq!(v2.own, Path::new("/sys/fs/cgroup/unified/user.slice/u"));
    let names: Vec<_> = mounts.v1.iter().map(|h| h.controllers.join(",")).collect();
    assert_eq!(names, ["cpu,cpuacct", "memory", "freezer", "pids"]);
    assert_eq!(mounts.v1[1].place.own, Path::new("/sys/fs/cgroup/memory/x/y"));
    assert_eq!(mounts.v1[3].place.root, Path::new("/sys/fs/cgroup/pi ds"));
}

#[test]
fn a_mount_of_a_part_shows_our_group_below_it() {
    let line = "9 1 0:1 /x /mnt rw - cgroup cgroup rw,memory\n";
    let mounts = Mounts::parse(line, OWN);
    assert_eq!(mounts.v1[0].place.own, Path::new("/mnt/y"));
}

fn files(plan: &Cgroups) -> Vec<(&str, &str)> {
    plan.limits.iter().map(|f| (f.path.as_str(), f.text.as_str())).collect()
}

#[test]
fn limits_go_to_v1_and_kill_to_v2_on_a_hybrid_machine() {
    let v1 = |c: &str| V1 { controllers: vec![c.into()], parent: format!("/cg/{c}/p").into() };
    let tree = Tree {
        v2: Some("/cg/unified/p".into()),
        v2_controllers: vec![],
        v1: vec![v1("cpu"), v1("memory"), v1("pids")],
    };
    assert_eq!(tree.limits(), [true; 3]);
    let plan = tree.plan("i", &LIMITS);
    assert_eq!(plan.v2.as_deref(), Some("/cg/unified/p/i"));
    assert_eq!(
        files(&plan),
        [
            ("/cg/memory/p/i/memory.limit_in_bytes", "67108864"),
            ("/cg/memory/p/i/memory.memsw.limit_in_bytes", "67108864"),
            ("/cg/pids/p/i/pids.max", "32"),
            ("/cg/cpu/p/i/cpu.cfs_period_us", "100000"),
            ("/cg/cpu/p/i/cpu.cfs_quota_us", "50000"),
        ]
    );
    assert!(plan.limits[1].optional && !plan.limits[0].optional);
}

#[test]
fn limits_go_to_v2_on_a_v2_machine() {
    let tree = Tree {
        v2: Some("/cg/p".into()),
        v2_controllers: vec!["memory".into(), "pids".into(), "cpu".into()],
        v1: vec![],
    };
    let plan = tree.plan("i", &LIMITS);
    assert_eq!(
        files(&plan),
        [
            ("/cg/p/i/memory.max", "67108864"),
            ("/cg/p/i/memory.swap.max", "0"),
            ("/cg/p/i/pids.max", "32"),
            ("/cg/p/i/cpu.max", "50000 100000"),
        ]
    );
}

#[test]
fn a_tiny_share_is_what_the_kernel_takes() {
    let tree = Tree { v2: Some("/p".into()), v2_controllers: vec!["cpu".into()], v1: vec![] };
    let plan = tree.plan("i", &Limits { vcpu: 0.001, ..LIMITS });
    assert_eq!(files(&plan), [("/p/i/cpu.max", "1000 100000")]);
}

#[test]
fn the_parents_of_this_machine_can_be_made() {
    let name = format!("sandkeep-test-{}", std::process::id());
    let tree = Tree::prepare(&Mounts::detect(), &name);
    for parent in tree.parents() {
        assert!(parent.is_dir(), "{parent:?}");
        std::fs::remove_dir(parent).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        assert_eq!(tree.limits(), [true; 3]);
    }
}
