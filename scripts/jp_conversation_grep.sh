#!/usr/bin/env bash
# Searches the caller's sub-conversations. Copy it with jp_conversation_grep.toml to .jp/tools.
set -euo pipefail

# Status 1 says that nothing was found.
STATUS=0
{{#if tool.arguments.id}}
jp conversation grep \
  --id="{{tool.arguments.id}}" \
  --root-id="{{context.conversation_id}}" \
  -i -- "{{tool.arguments.pattern}}" || STATUS=$?
{{else}}
jp conversation grep \
  --root="{{context.conversation_id}}" \
  --hidden \
  -i -- "{{tool.arguments.pattern}}" || STATUS=$?
{{/if}}
[ "$STATUS" = 1 ] || exit "$STATUS"
echo "no sub-conversation says that"
