package launch

import (
	"slices"
	"testing"
)

func TestLines(t *testing.T) {
	l := Launcher{Command: []string{"srun", "--job-name={run}"}, Program: "bin/jp", Stop: []string{"scancel", "--name={run}", "{run}{run}"}}
	if got, want := l.Line("jp-7"), []string{"srun", "--job-name=jp-7", "bin/jp", "worker"}; !slices.Equal(got, want) {
		t.Errorf("Line = %q, want %q", got, want)
	}
	if got, want := l.StopLine("jp-7"), []string{"scancel", "--name=jp-7", "jp-7jp-7"}; !slices.Equal(got, want) {
		t.Errorf("StopLine = %q, want %q", got, want)
	}
	if l.Command[1] != "--job-name={run}" || (&Launcher{}).StopLine("x") != nil {
		t.Error("a line of config was changed, or made")
	}
}

// No pattern lets a key through, or what makes programs load code.
func TestVariables(t *testing.T) {
	env := []string{"SLURM_JOB_ID=1", "SLURM_TOKEN=2", "OPENAI_API_KEY=3", "OPENAI_ORG=4", "GIT_SSH_COMMAND=5", "GIT_AUTHOR=6", "HOME=7", "A=8", "=9", "noise"}
	l := Launcher{Env: []string{"SLURM_*", "OPENAI_*", "GIT_*", "A"}}
	if got, want := l.Variables(env, []string{"SLURM_TOKEN"}), []string{"SLURM_JOB_ID", "OPENAI_ORG", "GIT_AUTHOR", "A"}; !slices.Equal(got, want) {
		t.Errorf("Variables = %q, want %q", got, want)
	}
}
