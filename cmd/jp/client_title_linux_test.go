package main

import (
	"strings"
	"testing"
)

// A program that reads a result can go on in the conversation: a model has written its title by
// then. The totals do not have that call.
func TestClientTitle(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/root.toml\"\n[conversation.title]\nmodel = \"script/title.toml\"\n",
		"root.toml":       "[[rule]]\ntext = \"done\"\n",
		"title.toml":      "[[rule]]\ntext = \"Of a model\"\ndelay = \"1s\"\n",
	})
	c := s.clientRun()
	c.say("hello")
	r := c.until("result")
	if models := need[map[string]any](r, "modelUsage"); r["status"] != "ok" || len(models) != 1 || models["script/root.toml"] == nil {
		t.Errorf("result = %v, want one that is ok, with the usage of root.toml alone", r)
	}
	if shown, _ := s.jp("conversation", "show", need[string](r, "session_id"), "-F", "json"); !strings.Contains(shown, `"title":"Of a model"`) {
		t.Errorf("when the result has come, the conversation is %s", shown)
	}
	if status := c.end(); status != 0 {
		t.Errorf("status %d, stderr %s", status, &c.said)
	}
}
