package cli

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/console"
)

// TestCheckOfManyProfiles: twice as many profiles of an agent are twice the work for `jp check`,
// whether they exist or not.
func TestCheckOfManyProfiles(t *testing.T) {
	const agent = "[assistant]\nmodel = \"script/m.toml\"\n"
	for _, exist := range []bool{false, true} {
		check := func(n int) float64 {
			files, names := map[string]string{"m.toml": "[[rule]]\ntext = 'x'\n"}, make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf(`"agent/name%04d"`, i)
				if exist {
					files[fmt.Sprintf(".jp/config/agent/name%04d.toml", i)] = "[loader]\nreset = \"none\"\n" + agent
				}
			}
			files[".jp/config.toml"] = agent + "[delegation]\nprofiles = [" + strings.Join(names, ", ") + "]\n"
			_, root := trustApp(t, files)
			return testing.AllocsPerRun(1, func() {
				var out, errs bytes.Buffer
				status := Main(context.Background(), console.Env{
					Args: []string{"jp", "check"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: root,
					Environ: []string{"HOME=" + filepath.Dir(root), "JP_TRUST_WORKSPACE=1", "JP_NONINTERACTIVE=1", "JP_SESSION=test"},
				})
				found := strings.Count(out.String(), ": there is no such profile (`jp profile ls` lists them)\n")
				if exist && (status != 0 || out.Len() > 0) || !exist && (status != 2 || found != n) || errs.Len() > 0 {
					t.Fatalf("status %d, %d findings, stdout %s, stderr %s", status, found, out.String(), errs.String())
				}
			})
		}
		few, many := check(100), check(200)
		if many > 2.2*few {
			t.Errorf("exist = %v: %.0f allocations for 100 profiles and %.0f for 200", exist, few, many)
		}
	}
}
