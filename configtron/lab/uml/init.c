// SPDX-License-Identifier: MIT
/*
 * The first process of a lab guest.
 *
 * The guest's root is the host's own file system, seen read-only through hostfs (User-Mode Linux) or 9p (QEMU), so no disk
 * image has to be built.
 * That makes this program's first duty a safety one: until /proc, /sys and the rest are mounted over, those paths lead
 * to the host's. It mounts first, then asks the new /proc whether it belongs to the running guest kernel, and powers
 * the guest off if anything failed. (A mount that failed unseen once changed the host's own sysctls.)
 *
 * Its second duty is sameness: nothing but the job file says what runs, so the kernel command line, which the kernel
 * mixes into its random numbers, is the same for every job, wherever the output goes.
 *
 * /run/configtron, made by enclose.sh in a mount namespace of its own, holds
 *   job     strings that end in NUL: kernel modules to load, "", environment, "", command and its arguments
 *   output  the one folder the guest can write, mounted inside as /run/output
 * The command's stdout and stderr go to /run/output/console.log, its exit code to /run/output/exit (128 + signal if it
 * was killed). A guest that could not even start writes no exit file; its reason is in the kernel log.
 *
 * Built statically: it must run before anything else is certain to be there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST_OUTPUT "/run/configtron/output"
#define OUTPUT "/run/output"
/* a campaign keeps some thousand connections open, a web pool as many again */
#define OPEN_FILES 65536
/* Apache has 256 threads and as many more for HTTP/2; the kernel allows 512 a user, by memory over stacks of 64 kB */
#define THREADS 4096
/* more than a hundred thousand targets' worth of arguments never fits a command line anyway */
#define JOB_BYTES (1 << 20)

static char job[JOB_BYTES];

static void power_off(const char *why)
{
	if (why)
		dprintf(2, "guest: %s: %s\n", why, strerror(errno));
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void must_mount(const char *type, const char *on, unsigned long flags, const char *options)
{
	/* EBUSY: the kernel has already put its devtmpfs there */
	if (mount(type, on, type, flags, options) && errno != EBUSY)
		power_off(on);
}

static void make_folder(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		power_off(path);
}

static void read_text(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got, held = 0;

	if (file < 0)
		power_off(path);
	while ((got = read(file, text + held, size - 1 - held)) > 0)
		held += got;
	text[held] = 0;
	close(file);
}

static void write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		power_off(path);
	close(file);
}

/* Only User-Mode Linux knows hostfs; elsewhere qemu.py has offered the output folder under this name. */
static void mount_output(void)
{
	if (!mount("hostfs", OUTPUT, "hostfs", MS_NOATIME | MS_NODIRATIME, HOST_OUTPUT))
		return;
	if (errno != ENODEV ||
	    mount("output", OUTPUT, "9p", MS_NOATIME, "trans=virtio,version=9p2000.L"))
		power_off(OUTPUT);
}

/* Refuse to go on unless /proc speaks for the kernel that runs us. */
static void check_kernel(void)
{
	struct utsname self;
	char release[256];

	read_text("/proc/sys/kernel/osrelease", release, sizeof(release));
	release[strcspn(release, "\n")] = 0;
	errno = EPERM;
	if (uname(&self) || strcmp(self.release, release))
		power_off("/proc is not this kernel's");
}

static void mount_all(void)
{
	/* relatime would write access times back at moments that depend on when the host's files last changed */
	if (mount("", "/", "", MS_REMOUNT | MS_RDONLY | MS_NOATIME | MS_NODIRATIME, "/"))
		power_off("/");
	must_mount("proc", "/proc", 0, "");
	check_kernel();
	must_mount("sysfs", "/sys", 0, "");
	must_mount("devtmpfs", "/dev", 0, "");
	make_folder("/dev/pts");
	must_mount("devpts", "/dev/pts", 0, "");
	make_folder("/dev/shm");
	must_mount("tmpfs", "/dev/shm", 0, "");
	/* /tmp stays the host's, read-only like the rest: people keep check-outs there; TMPDIR points to /run/tmp */
	must_mount("tmpfs", "/run", 0, "mode=755");
	make_folder("/run/tmp");
	make_folder("/run/netns");
	make_folder("/run/lock");
	make_folder("/run/cgroup");
	must_mount("cgroup2", "/run/cgroup", 0, "");
	make_folder("/run/bpf");
	must_mount("bpf", "/run/bpf", 0, "");
	make_folder(OUTPUT);
	mount_output();
}

static void set_limits(void)
{
	struct rlimit files = { OPEN_FILES, OPEN_FILES }, threads = { THREADS, THREADS };
	char most[16];

	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_NPROC, &threads);
	snprintf(most, sizeof(most), "%d\n", THREADS);
	write_text("/proc/sys/kernel/threads-max", most);
	sethostname("guest", 5);
}

static void raise_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request))
		power_off("lo");
	close(any);
}

/* Splits one list off the job: pointers into it, NULL at the end. Returns where the next list begins. */
static char *take_list(char *text, char ***list)
{
	size_t count = 0;

	*list = NULL;
	for (; *text; text += strlen(text) + 1) {
		*list = realloc(*list, (count + 2) * sizeof(char *));
		(*list)[count++] = text;
	}
	if (!count)
		*list = calloc(1, sizeof(char *));
	else
		(*list)[count] = NULL;
	return text + 1;
}

/* Only packaged kernels have modules. One that will not load is logged and passed over: the lab checks what it needs. */
static void load_modules(char **paths)
{
	for (; *paths; paths++) {
		int file = open(*paths, O_RDONLY | O_CLOEXEC);

		if (file < 0 || syscall(SYS_finit_module, file, "", 0))
			dprintf(2, "guest: module %s: %s\n", *paths, strerror(errno));
		if (file >= 0)
			close(file);
	}
}

static void become(char **command, char **environment)
{
	int log = open(OUTPUT "/console.log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
	int nothing = open("/dev/null", O_RDONLY);

	if (log < 0 || nothing < 0 || chdir("/"))
		_exit(126);
	dup2(nothing, 0);
	dup2(log, 1);
	dup2(log, 2);
	close(nothing);
	close(log);
	setsid();
	environ = environment;
	execvp(command[0], command);
	perror(command[0]);
	_exit(127);
}

static int wait_for(pid_t wanted)
{
	int status;

	/* as the first process we also inherit, and must reap, every orphan */
	while (wait(&status) != wanted)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void)
{
	char **modules, **environment, **command, *rest, code[16];
	pid_t child;

	if (getpid() != 1) {
		dprintf(2, "guest: not the first process; run me as a guest kernel's init\n");
		return 1;
	}
	read_text("/run/configtron/job", job, sizeof(job) - 2);
	mount_all();
	set_limits();
	rest = take_list(job, &modules);
	rest = take_list(rest, &environment);
	take_list(rest, &command);
	load_modules(modules);
	raise_loopback();
	child = fork();
	if (child < 0)
		power_off("fork");
	if (!child)
		become(command, environment);
	snprintf(code, sizeof(code), "%d\n", wait_for(child));
	/* whatever the command left running must not write after the exit code */
	kill(-1, SIGKILL);
	write_text(OUTPUT "/exit", code);
	power_off(NULL);
}
