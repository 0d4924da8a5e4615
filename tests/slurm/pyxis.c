// A Slurm plugin with the options of pyxis, as far as the suite's scripts use them: each task enters an unpacked root
// file system (chroot and bind mounts in a mount namespace of its own) before it gives up its privileges.
// Its messages are those of pyxis. The image's environment is the file etc/environment in it: as with pyxis it wins
// over the job's, except for the names in --container-env.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis, 1)

enum { IMAGE, MOUNTS, WORKDIR, ENV, NO_HOME, COUNT };
static const char *given[COUNT];

static int take(int option, const char *value, int remote) {
  (void)remote;
  given[option] = value ? strdup(value) : "";
  return 0;
}

struct spank_option spank_options[] = {
    {"container-image", "PATH", "unpacked root file system", 1, IMAGE, take},
    {"container-mounts", "SRC:DST[:ro][,...]", "bind mounts", 1, MOUNTS, take},
    {"container-workdir", "PATH", "working directory", 1, WORKDIR, take},
    {"container-env", "NAME[,...]", "variables of the job that win over the image's", 1, ENV, take},
    {"no-container-mount-home", NULL, "for the sake of the real one", 0, NO_HOME, take},
    SPANK_OPTIONS_TABLE_END,
};

static int fail(const char *what, const char *which) {
  slurm_error("pyxis: %s: %s: %s", what, which, strerror(errno));
  slurm_error("pyxis: couldn't start container");
  return -1;
}

static void make_directories(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0755);
    *slash = '/';
  }
  mkdir(path, 0755);
}

static int bind_into(const char *source, const char *target, int readonly) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s", given[IMAGE], target);
  make_directories(path);
  if (mount(source, path, NULL, MS_BIND | MS_REC, NULL)) return -1;
  return readonly ? mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) : 0;
}

static int listed(const char *name) {
  size_t length = strlen(name);
  for (const char *at = given[ENV]; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!strncmp(at, name, length) && (at[length] == ',' || !at[length])) return 1;
  return 0;
}

static void set_environment(spank_t task) {
  char line[4096];
  FILE *file = fopen("/etc/environment", "r");
  while (file && fgets(line, sizeof line, file)) {
    char *value = strchr(line, '=');
    if (!value) continue;
    *value++ = 0;
    value[strcspn(value, "\n")] = 0;
    spank_setenv(task, line, value, !listed(line));
  }
  if (file) fclose(file);
}

int slurm_spank_task_init_privileged(spank_t task, int argc, char **argv) {
  (void)argc, (void)argv;
  if (!given[IMAGE]) return 0;
  if (access(given[IMAGE], F_OK)) {
    slurm_error("pyxis: printing enroot log file:");
    slurm_error("pyxis:     [ERROR] No such file or directory: %s", given[IMAGE]);
    slurm_error("pyxis: couldn't start container");
    return -1;
  }
  if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return fail("unshare", "mounts");
  const char *system[] = {"/dev", "/proc", "/sys", "/etc/hosts"};
  for (int i = 0; i < 4; i++)
    if (bind_into(system[i], system[i], 0)) return fail("couldn't mount", system[i]);
  char *rest = given[MOUNTS] ? strdup(given[MOUNTS]) : NULL;
  for (char *next; (next = strsep(&rest, ","));) {
    char *source = strsep(&next, ":"), *target = strsep(&next, ":");
    if (!target) {
      slurm_error("pyxis: --container-mounts: invalid format: %s", source);
      return -1;
    }
    if (access(source, F_OK)) {
      slurm_error("pyxis: --container-mounts: source path does not exist: %s", source);
      return -1;
    }
    if (bind_into(source, target, next && !strcmp(next, "ro"))) return fail("couldn't mount", source);
  }
  if (chroot(given[IMAGE]) || chdir(given[WORKDIR] ? given[WORKDIR] : "/")) return fail("couldn't enter", given[IMAGE]);
  set_environment(task);
  return 0;
}
