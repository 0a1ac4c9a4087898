/*
 * What programs here know of the kernel: types with the members that are read, and helpers.
 *
 * Only names matter: where a member is, and how wide, is found in the running kernel's BTF when a
 * program is loaded (CO-RE). A name after three underscores tells apart what older kernels had under
 * the same name, so `task_struct___before_5_14` is their `task_struct`. Ask FIELD_EXISTS first.
 *
 * Kernel reference: Documentation/bpf/btf.rst, include/uapi/linux/bpf.h.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline, unused)) inline
/* A function that the verifier looks at once, by itself, and not again on every way that leads to it: its
 * arguments are numbers and memory, and addresses in the kernel are numbers there. */
#define ONCE __attribute__((noinline))
#define KERNEL __attribute__((preserve_access_index))
/* So that a bound is kept which a compiler could show to be needless, and the verifier cannot. */
#define HIDE_FROM_COMPILER(value) asm volatile("" : "+r"(value))

/* Free to use under the project's licence too; the kernel grants its helpers to GPL-compatible ones. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- maps: `struct { MAP(HASH, 1024); KEY(u32); VALUE(struct row); } rows SEC(".maps");` --- */

#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define MAP(kind, entries) __uint(type, BPF_MAP_TYPE_##kind); __uint(max_entries, entries)
#define FLAGS(flags) __uint(map_flags, flags)
#define KEY(type) __type(key, type)
#define VALUE(type) __type(value, type)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };

#define BPF_F_NO_PREALLOC 1
#define BPF_F_USER_STACK (1ULL << 8)
#define BPF_F_FAST_STACK_CMP (1ULL << 9)
#define BPF_F_REUSE_STACKID (1ULL << 10)
#define BPF_F_MMAPABLE (1ULL << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP (1ULL << 0)
#define BPF_RB_FORCE_WAKEUP (1ULL << 1)

/* --- helpers, by their numbers in include/uapi/linux/bpf.h --- */

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_current_uid_gid)(void) = (void *)15;
static long (*bpf_get_current_comm)(void *buffer, u32 bytes) = (void *)16;
static long (*bpf_get_stackid)(void *context, void *map, u64 flags) = (void *)27;
static long (*bpf_get_stack)(void *context, void *buffer, u32 bytes, u64 flags) = (void *)67;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static long (*bpf_probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*bpf_probe_read_user_str)(void *to, u32 bytes, const void *from) = (void *)114;
static long (*bpf_probe_read_kernel_str)(void *to, u32 bytes, const void *from) = (void *)115;
static long (*bpf_seq_write)(void *seq, const void *from, u32 bytes) = (void *)127;
static long (*bpf_ringbuf_output)(void *ring, void *from, u64 bytes, u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*bpf_ringbuf_discard)(void *record, u64 flags) = (void *)133;
static u64 (*bpf_ringbuf_query)(void *ring, u64 flags) = (void *)134;
static void *(*bpf_task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static long (*bpf_task_storage_delete)(void *map, void *task) = (void *)157;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;

/*
 * --- functions of the kernel that are no helpers ---
 *
 * Each kernel has its own numbers for these, or none. Those here stand for them: they are places in
 * `CALLED` of probe-agent/src/bpf/called.rs, after a number that no helper has.
 */

#define KERNEL_FUNCTION(place) ((void *)(0x10000000 + place))

struct bpf_iter_task {
	u64 opaque[3];
};

enum { BPF_TASK_ITER_ALL_THREADS = 1 };

static int (*bpf_iter_task_new)(struct bpf_iter_task *each, struct task_struct *from, u32 which) =
	KERNEL_FUNCTION(0);
static struct task_struct *(*bpf_iter_task_next)(struct bpf_iter_task *each) = KERNEL_FUNCTION(1);
static void (*bpf_iter_task_destroy)(struct bpf_iter_task *each) = KERNEL_FUNCTION(2);

/*
 * Reads a member through any pointer. Through one that the verifier knows (an argument of a tp_btf
 * program, bpf_get_current_task_btf(), what is reached from there) `task->tgid` does too, and costs
 * no call.
 */
#define READ_INTO(to, pointer, member) \
	bpf_probe_read_kernel(&(to), sizeof(to), \
			      (const void *)__builtin_preserve_access_index(&(pointer)->member))
#define GET(pointer, member) \
	({ \
		typeof((pointer)->member) value_ = 0; \
		READ_INTO(value_, pointer, member); \
		value_; \
	})
/* Where a member is that is no number: an array, a structure. */
#define ADDRESS(pointer, member) ((const void *)__builtin_preserve_access_index(&(pointer)->member))
#define FIELD_EXISTS(member) __builtin_preserve_field_info(member, 2)
/* A constant of an enumeration, which kernels may number anew. */
#define ENUM_EXISTS(type, name) __builtin_preserve_enum_value(*(typeof(enum type) *)name, 0)
#define ENUM_VALUE(type, name) __builtin_preserve_enum_value(*(typeof(enum type) *)name, 1)

/* --- tasks --- */

#define PF_KTHREAD 0x00200000

struct upid {
	int nr;
} KERNEL;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL;

enum { PIDTYPE_PID, PIDTYPE_TGID, PIDTYPE_PGID, PIDTYPE_SID };


struct signal_struct {
	int nr_threads;
	struct pid *pids[4];
	u64 utime, stime, cutime, cstime;
	unsigned long min_flt, maj_flt, cmin_flt, cmaj_flt;
	unsigned long nvcsw, nivcsw;
	u64 sum_sched_runtime;
} KERNEL;

struct sched_entity {
	u64 sum_exec_runtime;
} KERNEL;

struct sched_info {
	u64 run_delay;
} KERNEL;

struct kernfs_node {
	u64 id;
} KERNEL;

/* The walk from a group to those above it: `ancestors` since 6.1, `ancestor_ids` before. */
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[1];
} KERNEL;

struct cgroup___before_6_1 {
	u64 ancestor_ids[1];
} KERNEL;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} KERNEL;

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
} KERNEL;

enum cgroup_subsys_id { perf_event_cgrp_id };

struct files_struct;
struct fs_struct;
struct mm_struct;

struct thread_info {
	u32 status;
} KERNEL;

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_rq;
	int exit_state;
	int pid, tgid;
	char comm[16];
	struct task_struct *real_parent, *group_leader;
	struct signal_struct *signal;
	struct files_struct *files;
	struct fs_struct *fs;
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct css_set *cgroups;
	u64 start_boottime;
	u64 utime, stime;
	unsigned long min_flt, maj_flt;
	unsigned long nvcsw, nivcsw;
	struct sched_entity se;
	struct sched_info sched_info;
} KERNEL;

struct task_struct___before_5_14 {
	long state;
} KERNEL;

/* TASK_RUNNING is 0, TASK_INTERRUPTIBLE 1, TASK_UNINTERRUPTIBLE 2; more in include/linux/sched.h. */
INLINE u32 state_of(struct task_struct *task)
{
	if (FIELD_EXISTS(task->__state))
		return GET(task, __state);
	return (u32)GET((struct task_struct___before_5_14 *)task, state);
}

/* What tells a process from a later one with its number: nanoseconds since boot. */
INLINE u64 start_of(struct task_struct *task)
{
	return task->group_leader->start_boottime;
}

/* --- memory --- */

struct percpu_counter {
	s64 count;
} KERNEL;

struct mm_struct {
	struct percpu_counter rss_stat[4];
} KERNEL;

struct atomic_s64 {
	s64 counter;
} KERNEL;

struct mm_rss_stat___before_6_2 {
	struct atomic_s64 count[4];
} KERNEL;

struct mm_struct___before_6_2 {
	struct mm_rss_stat___before_6_2 rss_stat;
} KERNEL;

/* --- files --- */

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFBLK 0060000
#define S_IFDIR 0040000

struct qstr {
	u32 hash, len;
	const unsigned char *name;
} KERNEL;

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct dentry *s_root;
} KERNEL;

struct inode {
	u16 i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
	u32 i_rdev;
} KERNEL;

struct dentry {
	struct qstr d_name;
	struct dentry *d_parent;
	struct inode *d_inode;
} KERNEL;

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
} KERNEL;

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
} KERNEL;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} KERNEL;

struct file_operations;

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
	const struct file_operations *f_op;
	unsigned int f_flags;
} KERNEL;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
} KERNEL;

struct files_struct {
	struct fdtable *fdt;
} KERNEL;

/* Where a process stands, and what it takes for the root. */
struct fs_struct {
	struct path root, pwd;
} KERNEL;

/* --- sockets --- */

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

struct in6_addr {
	u8 bytes_[16];
};

struct sock_common {
	u16 skc_family;
	volatile u8 skc_state;
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	u16 sk_type, sk_protocol;
} KERNEL;

struct sockaddr_un {
	u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[1];
} KERNEL;

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} KERNEL;

struct socket {
	short type;
	struct sock *sk;
	struct file *file;
} KERNEL;

/* --- block devices --- */

struct gendisk {
	int major, first_minor;
} KERNEL;

struct request_queue {
	struct gendisk *disk;
} KERNEL;

struct block_device {
	u32 bd_dev;
} KERNEL;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	u64 __sector;
	struct block_device *part;
} KERNEL;

/* Before 5.17 the disk is the request's own. */
struct request___before_5_17 {
	struct gendisk *rq_disk;
} KERNEL;

struct bvec_iter {
	unsigned int bi_size;
	u64 bi_sector;
} KERNEL;

struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
} KERNEL;

/* --- registers of a system call, as sys_enter and sys_exit have them --- */

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, ip, sp, bp, orig_ax;
} KERNEL;
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
} KERNEL;
struct pt_regs {
	struct user_pt_regs user_regs;
	u64 orig_x0;
	s32 syscallno;
} KERNEL;
#else
#error "no registers are known of this processor"
#endif

/* --- iterators --- */

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
} KERNEL;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KERNEL;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
} KERNEL;

/* --- arithmetic --- */

/* The number of the highest bit that is set; 0 of 0. */
INLINE u32 log2_of(u64 value)
{
	u32 log = 0;
	if (value >> 32) { log += 32; value >>= 32; }
	if (value >> 16) { log += 16; value >>= 16; }
	if (value >> 8) { log += 8; value >>= 8; }
	if (value >> 4) { log += 4; value >>= 4; }
	if (value >> 2) { log += 2; value >>= 2; }
	return log + (u32)(value >> 1);
}
