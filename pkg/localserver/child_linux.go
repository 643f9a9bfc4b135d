package localserver

import (
	"os/exec"
	"syscall"
)

// isolate takes cmd out of this process's group and ties its life to the thread that starts it.
func isolate(cmd *exec.Cmd, last syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = last
}
