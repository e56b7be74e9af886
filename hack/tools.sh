#!/usr/bin/env bash
# Builds the tools that hack/tools pins into .cache/bin: the named ones, or those that make test needs. A tool is built
# again only when its go.mod or go.sum, the flags below or the Go version changed. A folder's file linkflags says what else
# to pass to the linker; VERSION stands for the tool's version.
#
#   hack/tools.sh [TOOL ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.cache/bin
mkdir -p "$bin"

export CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath -gcflags=all=-dwarf=false' GOWORK=off

(($#)) || set -- $(ls hack/tools | grep -Evx 'etcd|kubernetes|provider-.*|crossplane-cli-.*|cyclonedx-gomod|govulncheck')
# Minutes on two cores with nothing cached.
declare -A minutes=([kube-apiserver]=9 [kube-controller-manager]=3 [crossplane-cli]=4 [crossplane-cli-1.20]=6 [crossplane-cli-1.16]=5 [crossplane-core]=3 [provider-helm]=4 [provider-kubernetes]=3)
for tool; do
  # A folder has the name of its tool; that of Kubernetes has three tools.
  dir=hack/tools/$tool
  [[ -d $dir ]] || dir=$(dirname "$(grep -l "^tool .*/$tool\$" hack/tools/*/go.mod)")
  package=$(awk -v tool="$tool" '
    $1 == "tool" && (package == "" || $2 ~ "/" tool "$") { package = $2 }
    END { print package }' "$dir/go.mod")
  # The longest required module that the package's path starts with.
  version=$(awk -v package="$package" '
    $1 == "require" { $1 = $2; $2 = $3 }
    index(package "/", $1 "/") == 1 && $2 ~ /^v/ && length($1) > length(module) { module = $1; version = $2 }
    END { print version }' "$dir/go.mod")
  # Crossplane's core compares its version with what packages ask for, and knows it only from this flag. The other
  # tools do not have the variable and ignore it.
  ldflags="-s -w -X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=$version"
  [[ ! -f $dir/linkflags ]] || ldflags+=" $(sed "s/VERSION/$version/g" "$dir/linkflags" | tr '\n' ' ')"

  # Two runs may want the same tool at the same time.
  exec 9>"$bin/$tool.lock"
  ! command -v flock >/dev/null || flock 9
  key=$({ cat "$dir/go.mod" "$dir/go.sum" && go env GOVERSION GOOS GOARCH GOFLAGS && echo "$ldflags"; } | sha256sum)
  if [[ -x $bin/$tool && $(cat "$bin/$tool.key" 2>/dev/null) == "$key" ]]; then
    printf '%-23s %-10s up to date\n' "$tool" "$version"
    continue
  fi

  started=$SECONDS
  printf '%-23s %-10s building %s, about %s min if nothing is cached\n' "$tool" "$version" "$package" "${minutes[$tool]:-1}"
  if ! go -C "$dir" build -mod=readonly -ldflags "$ldflags" -o "$bin/$tool" "$package"; then
    echo "cannot build $tool $version: see the lines above; its pinned versions are in $dir/go.mod" >&2
    exit 1
  fi
  echo "$key" >"$bin/$tool.key"
  printf '%-23s %-10s built in %d s\n' "$tool" "$version" $((SECONDS - started))
done
