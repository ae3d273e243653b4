package record

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIsSecret(t *testing.T) {
	for _, name := range []string{
		"GITHUB_TOKEN", "OPENAI_API_KEY", "apiKey", "PGPASSWORD", "MYSQL_PWD", "SESSION_COOKIE", "AWS_SECRET_ACCESS_KEY", "SSH_PASSPHRASE",
		"GOOGLE_APPLICATION_CREDENTIALS", "NPM_AUTHTOKEN", "GH_PAT", "SIGNING_KEYS", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
	} {
		if !IsSecret(name) {
			t.Errorf("isSecret(%s) = false", name)
		}
	}
	for _, name := range []string{"MONKEY", "PATH", "PWD", "OLDPWD", "KEYBOARD", "TOKENIZERS_PARALLELISM", "JP_SUB_CALLS_TOKEN_BUDGET", "PATTERN", "HOME"} {
		if IsSecret(name) {
			t.Errorf("isSecret(%s) = true", name)
		}
	}
}

func TestClean(t *testing.T) {
	const value = `sk-a&b"c<d\e/f`
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{`no \secret \u00`, `no \secret \u00`},
		{`is sk-a&b"c<d\e/f.`, `is [A_KEY].`},
		{`{"a":"x sk-a&b\"c<d\\e/f","b":"sk-a\u0026b\"c\u003cd\\e\/f"}`, `{"a":"x [A_KEY]","b":"[A_KEY]"}`},
		{`"\u0073\u006B\u002d\u0061&b\u0022c<d\u005ce/f"`, `"[A_KEY]"`},
		{`{"q":"{\"a\":\"sk-a&b\\\"c<d\\\\e/f\"}"}`, `{"q":"{\"a\":\"[A_KEY]\"}"}`},
		{`sk-a&b"c<d\e/f\n then \q sk-a&b"c<d\e/fsk-a&b"c<d\e/f`, `[A_KEY]\n then \q [A_KEY][A_KEY]`},
		{`tail-😀\\" "tail-\ud83d\ude00"`, `[TAIL_TOKEN]\\" "[TAIL_TOKEN]"`},
		{`longer-tail-😀`, `[LONG_KEY]`},
		{`\`, `\`}, {`\u`, `\u`}, {`\ud83d`, `\ud83d`}, {`\ud83d\u0041`, `\ud83d\u0041`}, {`\u12g4`, `\u12g4`},
	} {
		c := &cover{secrets: map[string]string{value: "A_KEY", `tail-😀\`: "TAIL_TOKEN", "longer-tail-😀": "LONG_KEY"}, seen: map[string]bool{}}
		if got := c.clean(tt.text); got != tt.want {
			t.Errorf("clean(%s) = %s, want %s", tt.text, got, tt.want)
		}
	}
}

// TestCleanJSON: no secret is left in JSON, which stays JSON.
func TestCleanJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z<>&"/é😀 \\]{6,12}k`).Draw(t, "secret")
		c := &cover{secrets: map[string]string{value: "X"}, seen: map[string]bool{}}
		text := rapid.StringMatching(`[a-z"\\ ]{0,8}`).Draw(t, "before") + "." + value + rapid.StringMatching(`[A-Z"\\ ]{0,8}`).Draw(t, "after")
		for depth := rapid.IntRange(0, 3).Draw(t, "depth"); depth > 0; depth-- {
			b, err := json.Marshal(map[string]string{"a": text})
			if err != nil {
				t.Fatal(err)
			}
			if text = c.clean(string(b)); !json.Valid([]byte(text)) {
				t.Fatalf("clean(%s) = %s", b, text)
			}
			if !strings.Contains(text, "[X]") {
				t.Fatalf("clean(%s) = %s", b, text)
			}
		}
	})
}
